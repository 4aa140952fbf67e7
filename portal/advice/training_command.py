"""What the command of a job says of its training, in the options of an advice's request. Pure."""

import shlex
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

from agents.launchers.command_options import option_count, option_value
from portal.advice.question import Task
from scheduler.advisor.catalogue.models import MODELS
from scheduler.advisor.errors import AdvisorError
from scheduler.advisor.transformer import Shape, resized

MODEL, METHOD = ("--model",), ("--method",)
SEQUENCE = ("--sequence-length", "--seq-length")
# Sequences of a step over all GPUs; --batch-size is so in an advice's request.
BATCH = ("--global-batch-size", "--batch-size")
ADAPTERS = (str(Task.LORA), str(Task.QLORA))
# A longer script is no command with options.
MAX_SCRIPT = 4_096


@dataclass(frozen=True, slots=True)
class TrainingCommand:
    """A model of the catalogue by its name, and how it is trained."""

    model: str
    shape: Shape
    """With sequences as long as the command says."""
    trains_adapters: bool
    batch: int
    """Sequences of a step; 0 if the command does not say."""


def training_command(command: Sequence[str]) -> TrainingCommand | None:
    """None unless it names both a transformer of the catalogue and the length of its sequences:
    what a token costs depends on both, and neither is guessed."""
    words = _words(command)
    name, length = option_value(words, MODEL) or "", option_count(words, SEQUENCE)
    shape = MODELS[name].shape if name in MODELS else None
    if not length or not isinstance(shape, Shape) or not shape.vocabulary:
        return None
    try:
        shape = resized(shape, length)
    except AdvisorError:
        return None
    trains_adapters = option_value(words, METHOD) in ADAPTERS
    return TrainingCommand(name, shape, trains_adapters, option_count(words, BATCH) or 0)


def _words(command: Sequence[str]) -> list[str]:
    """Those of a script that a shell runs, too: sh -c 'python train.py --model …'."""
    words = [str(word) for word in command]
    if len(words) == 3 and words[1] == "-c" and len(words[2]) <= MAX_SCRIPT:
        with suppress(ValueError):
            return shlex.split(words[2])
    return words
