"""Encoders: BERT for text, ViT for images."""

from collections.abc import Iterator

from scheduler.advisor.catalogue.entries import CatalogueModel, Family
from scheduler.advisor.transformer import Shape


def encoders() -> Iterator[CatalogueModel]:
    yield from _bert()
    yield from _vit()


def _bert() -> Iterator[CatalogueModel]:
    """BERT (arXiv 1810.04805), with two token types, a norm after the embeddings, and a pooler."""
    for name, layers, hidden, heads, vocabulary in (
        ("bert-base-cased", 12, 768, 12, 28_996),
        ("bert-base-uncased", 12, 768, 12, 30_522),
        ("bert-large-cased", 24, 1024, 16, 28_996),
        ("bert-large-uncased", 24, 1024, 16, 30_522),
    ):
        shape = Shape(
            layers=layers,
            hidden=hidden,
            heads=heads,
            sequence=512,
            vocabulary=vocabulary,
            positions=512,
            is_causal=False,
            other_parameters=4 * hidden + hidden**2 + hidden,
        )
        source = f"config.json of google-bert/{name} on Hugging Face"
        yield CatalogueModel(name, Family.BERT, shape, source)


def _vit() -> Iterator[CatalogueModel]:
    """ViT (arXiv 2010.11929), table 1: patches of an image of 224 x 224 and a token for its class;
    1,000 classes."""
    for name, layers, hidden, heads, patch in (
        ("vit-b-16", 12, 768, 12, 16),
        ("vit-l-16", 24, 1024, 16, 16),
        ("vit-h-14", 32, 1280, 16, 14),
    ):
        tokens = (224 // patch) ** 2 + 1
        patches = (3 * patch**2 + 1) * hidden
        norm, token, head = 2 * hidden, hidden, 1000 * (hidden + 1)
        shape = Shape(
            layers=layers,
            hidden=hidden,
            heads=heads,
            sequence=tokens,
            positions=tokens,
            is_causal=False,
            other_parameters=patches + norm + token + head,
        )
        yield CatalogueModel(name, Family.VIT, shape, "ViT, table 1 (arXiv 2010.11929)")
