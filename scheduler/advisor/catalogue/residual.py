"""ResNet by formula, layer by layer.

Source: He et al. (arXiv 1512.03385), table 1; the stride of a bottleneck on its middle convolution
and projections as in torchvision, whose parameters these are.
"""

from collections.abc import Iterator

from scheduler.advisor.catalogue.convolutions import Layers
from scheduler.advisor.catalogue.entries import CatalogueModel, Family
from scheduler.advisor.networks import ConvolutionalNetwork

WIDTHS = (64, 128, 256, 512)
CLASSES, SIDE = 1000, 224
# Blocks of each width, and how much wider a bottleneck ends; 1 is the block of two convolutions.
DEPTHS = {
    18: ((2, 2, 2, 2), 1),
    34: ((3, 4, 6, 3), 1),
    50: ((3, 4, 6, 3), 4),
    101: ((3, 4, 23, 3), 4),
    152: ((3, 8, 36, 3), 4),
}


def residual_networks() -> Iterator[CatalogueModel]:
    for depth in DEPTHS:
        source = "He et al., table 1 (arXiv 1512.03385)"
        yield CatalogueModel(f"resnet-{depth}", Family.RESNET, residual_network(depth), source)


def residual_network(depth: int, side: int = SIDE, classes: int = CLASSES) -> ConvolutionalNetwork:
    """For images of side x side pixels. Every convolution is followed by a norm, and both results
    are kept for the backward pass."""
    blocks, wider = DEPTHS[depth]
    layers = Layers(kept_copies=2)
    side //= 2
    layers.convolution(3, 64, 7, side, norm=True)
    side //= 2
    width = 64
    for stage, (count, inner) in enumerate(zip(blocks, WIDTHS, strict=True)):
        for index in range(count):
            stride = 2 if stage and not index else 1
            before, side = side, side // stride
            if wider == 1:
                layers.convolution(width, inner, 3, side, norm=True)
                layers.convolution(inner, inner, 3, side, norm=True)
            else:
                layers.convolution(width, inner, 1, before, norm=True)
                layers.convolution(inner, inner, 3, side, norm=True)
                layers.convolution(inner, inner * wider, 1, side, norm=True)
            if width != inner * wider or stride == 2:
                layers.convolution(width, inner * wider, 1, side, norm=True)
            width = inner * wider
    layers.matrix(width, classes, 1)
    return layers.network()
