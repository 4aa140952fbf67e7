"""A question to the advisor: a model, a task, and its sizes."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from agents.contract.message import Message
from scheduler.advisor.networks import ConvolutionalNetwork
from scheduler.advisor.quantisation import Quantisation
from scheduler.advisor.transformer import Recompute, Shape

DEFAULT_BATCH, DEFAULT_CONCURRENCY = 1, 8
# The name of a model whose config.json was sent.
OWN_MODEL = "model"


class Task(StrEnum):
    """What is to be done with a model."""

    PRETRAINING = "pretraining"
    FINE_TUNING = "finetuning"
    """Of all weights."""
    LORA = "lora"
    QLORA = "qlora"
    INFERENCE = "inference"


@dataclass(frozen=True, slots=True)
class AdviceQuestion:
    """A model and a task."""

    model: str
    """Its name in the catalogue, or OWN_MODEL."""
    source: str
    """Where its sizes were published."""
    shape: Shape | ConvolutionalNetwork
    task: Task
    batch: int = DEFAULT_BATCH
    """Sequences, or other samples, of a training step, over all GPUs together."""
    recompute: Recompute = Recompute.FULL
    concurrency: int = DEFAULT_CONCURRENCY
    """Sequences that are served at a time."""
    quantisation: Quantisation = Quantisation.BF16
    """Of the weights of a served model."""
    tokens: int = 0
    """Of the whole training; 0 where it was not said."""
    steps: int = 0
    """The same, instead of tokens."""

    @property
    def sequence(self) -> int:
        """Tokens of a sequence; 0 for a network that has none."""
        return self.shape.sequence if isinstance(self.shape, Shape) else 0

    @property
    def is_training(self) -> bool:
        return self.task is not Task.INFERENCE


@dataclass(frozen=True)
class InvalidQuestion(Exception):
    """What is wrong, by field."""

    errors: Mapping[str, Message]

    def __str__(self) -> str:
        return "; ".join(f"{name}: {message.text}" for name, message in self.errors.items())
