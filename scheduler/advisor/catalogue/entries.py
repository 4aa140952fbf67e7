"""What the catalogue says of a model."""

from dataclasses import dataclass
from enum import StrEnum

from scheduler.advisor.networks import ConvolutionalNetwork
from scheduler.advisor.transformer import Shape


class Family(StrEnum):
    """Of models with the same architecture, as a list of them is divided."""

    LLAMA = "LLaMA"
    MISTRAL = "Mistral"
    QWEN = "Qwen"
    DEEPSEEK = "DeepSeek"
    GPT = "GPT"
    BERT = "BERT"
    VIT = "ViT"
    DIFFUSION = "Diffusion"
    RESNET = "ResNet"


@dataclass(frozen=True, slots=True)
class CatalogueModel:
    """A shape with its name and where its sizes were published. The sequence of the shape is that
    of its training."""

    name: str
    family: Family
    shape: Shape | ConvolutionalNetwork
    source: str
    context: int = 0  # most tokens that it serves; 0 where it writes no text
