"""Diffusion models by formula: DiT, and the U-Nets of Stable Diffusion, layer by layer.

Sources: DiT (arXiv 2212.09748), table 1 and its published code; latent diffusion (arXiv
2112.10752) and SDXL (arXiv 2307.01952), with the sizes of the `config.json` of their U-Nets.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from scheduler.advisor.catalogue.convolutions import Layers
from scheduler.advisor.catalogue.entries import CatalogueModel, Family
from scheduler.advisor.networks import ConvolutionalNetwork
from scheduler.advisor.transformer import Shape

LATENT_CHANNELS, TEXT_TOKENS = 4, 77


def diffusion_models() -> Iterator[CatalogueModel]:
    for name, layers, hidden, heads in (
        ("dit-s-2", 12, 384, 6),
        ("dit-b-2", 12, 768, 12),
        ("dit-l-2", 24, 1024, 16),
        ("dit-xl-2", 28, 1152, 16),
    ):
        shape = diffusion_transformer(layers, hidden, heads)
        yield CatalogueModel(name, Family.DIFFUSION, shape, "DiT, table 1 (arXiv 2212.09748)")
    source = "config.json of the U-Net of %s on Hugging Face"
    first = source % "stable-diffusion-v1-5/stable-diffusion-v1-5"
    yield CatalogueModel("sd-1.5-unet", Family.DIFFUSION, unet(STABLE_DIFFUSION), first)
    second = source % "stabilityai/stable-diffusion-xl-base-1.0"
    yield CatalogueModel("sdxl-unet", Family.DIFFUSION, unet(SDXL), second)


def diffusion_transformer(layers: int, hidden: int, heads: int, side: int = 32) -> Shape:
    """Of latent images of side x side in patches of 2 x 2: 256 pixels have a side of 32. The
    condition of a layer is one vector, so its matrix of 6 h^2 counts with what is not multiplied
    with tokens; the norms of a layer have no weights."""
    tokens = (side // 2) ** 2
    patch = 4 * LATENT_CHANNELS
    steps = 256 * hidden + hidden + hidden**2 + hidden
    classes = 1001 * hidden
    last = 2 * hidden**2 + 2 * hidden + (hidden + 1) * 2 * patch
    conditions = layers * (6 * hidden**2 + 6 * hidden - 4 * hidden)
    return Shape(
        layers=layers,
        hidden=hidden,
        heads=heads,
        sequence=tokens,
        positions=tokens,
        is_causal=False,
        other_parameters=(patch + 1) * hidden + steps + classes + last + conditions,
    )


@dataclass(frozen=True, slots=True)
class UnetSizes:
    """Of the levels, from the one of the latent image down."""

    widths: tuple[int, ...]
    depths: tuple[int, ...]  # of the transformers; 0 is a level without them
    text_width: int
    side: int
    added_width: int = 0  # of a second condition, beside the step


STABLE_DIFFUSION = UnetSizes((320, 640, 1280, 1280), (1, 1, 1, 0), 768, 64)
SDXL = UnetSizes((320, 640, 1280), (0, 2, 10), 2048, 128, added_width=2816)
RESNETS = 2  # of a level on the way down; one more on the way up


def unet(sizes: UnetSizes) -> ConvolutionalNetwork:
    """Of one latent image. A residual block keeps what its norms, activations and convolutions
    read: three copies."""
    layers, widths, side = Layers(kept_copies=3), sizes.widths, sizes.side
    condition = 4 * widths[0]
    for width in (widths[0], sizes.added_width):
        if width:
            layers.matrix(width, condition, 1)
            layers.matrix(condition, condition, 1)
    layers.convolution(LATENT_CHANNELS, widths[0], 3, side)
    skips, last = [widths[0]], widths[0]
    for level, (width, depth) in enumerate(zip(widths, sizes.depths, strict=True)):
        for _ in range(RESNETS):
            _block(layers, last, width, side, depth, condition, sizes.text_width)
            last = width
            skips.append(width)
        if level < len(widths) - 1:
            side //= 2
            layers.convolution(width, width, 3, side)
            skips.append(width)
    deepest = max(depth for depth in sizes.depths[-2:])
    _block(layers, last, last, side, deepest, condition, sizes.text_width)
    _block(layers, last, last, side, 0, condition, sizes.text_width)
    levels = list(zip(widths, sizes.depths, strict=True))
    for level, (width, depth) in reversed(list(enumerate(levels))):
        for _ in range(RESNETS + 1):
            _block(layers, last + skips.pop(), width, side, depth, condition, sizes.text_width)
            last = width
        if level:
            side *= 2
            layers.convolution(width, width, 3, side)
    layers.norm(last)
    layers.convolution(last, LATENT_CHANNELS, 3, side)
    return layers.network()


def _block(
    layers: Layers, before: int, after: int, side: int, depth: int, condition: int, text: int
) -> None:
    """Two convolutions with a shortcut, then a transformer of `depth` layers."""
    layers.norm(before)
    layers.convolution(before, after, 3, side)
    layers.matrix(condition, after, 1)
    layers.norm(after)
    layers.convolution(after, after, 3, side)
    if before != after:
        layers.convolution(before, after, 1, side)
    if depth:
        tokens = side**2
        layers.norm(after)
        layers.matrix(after, after, tokens, copies=2)
        for _ in range(depth):
            _transformer_layer(layers, after, tokens, text)
        layers.matrix(after, after, tokens)


def _transformer_layer(layers: Layers, width: int, tokens: int, text: int) -> None:
    """Attention in the image, attention to the text, and a gated feed-forward part. The second
    copies are those of the norms before."""
    for _ in range(3):
        layers.norm(width)
    for others, read in ((tokens, width), (TEXT_TOKENS, text)):
        layers.matrix(width, width, tokens, has_bias=False, copies=2)
        layers.matrix(read, width, others, has_bias=False)
        layers.matrix(read, width, others, has_bias=False)
        layers.attention(tokens, others, width)
        layers.matrix(width, width, tokens)
    layers.matrix(width, 8 * width, tokens, copies=2)
    layers.matrix(4 * width, width, tokens, copies=2)
