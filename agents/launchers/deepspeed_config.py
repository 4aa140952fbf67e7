"""A DeepSpeed configuration that the command itself has, and whether its batch sizes fit the world.

One in a file of the job's code is not seen here: DeepSpeed checks it at the start of the job.
"""

import base64
import binascii
import json
from collections.abc import Mapping, Sequence
from typing import Any

from agents.contract.message import NO_MESSAGE, Message
from agents.launchers.command_options import option_value

OPTIONS = ("--deepspeed-config", "--deepspeed")
# A longer word is no configuration that people write into a command.
MAX_LENGTH = 16 << 10


def inline_config(words: Sequence[str]) -> Mapping[str, Any] | None:
    """What --deepspeed_config, or --deepspeed of Hugging Face's Trainer, has as JSON or as the
    base64 of it, which DeepSpeed reads both. None if it names a file."""
    value = option_value(words, OPTIONS) or ""
    if not value or len(value) > MAX_LENGTH:
        return None
    for text in (value, _from_base64(value)):
        try:
            config = json.loads(text)
        except (ValueError, RecursionError):
            continue
        if isinstance(config, dict):
            return config
    return None


def batch_refusal(config: Mapping[str, Any], ranks: int) -> Message:
    """train_batch_size is that of a GPU, times the steps of accumulation, times the ranks. What is
    left out or "auto" follows from the others. Empty if they fit."""
    train = _amount(config, "train_batch_size")
    micro = _amount(config, "train_micro_batch_size_per_gpu")
    steps = _amount(config, "gradient_accumulation_steps")
    factor = (micro or 1) * (steps or 1) * ranks
    is_whole = micro and steps
    if not train or (train == factor if is_whole else train % factor == 0):
        return NO_MESSAGE
    return Message(
        "train_batch_size %(train)s of the DeepSpeed configuration does not fit %(micro)s in each "
        "GPU × %(steps)s steps of accumulation × %(ranks)s processes: leave one of them out",
        train=train,
        micro=micro or 1,
        steps=steps or 1,
        ranks=ranks,
    )


def _amount(config: Mapping[str, Any], name: str) -> int:
    """0 if it is left out, or no number."""
    value = config.get(name)
    return value if isinstance(value, int) and value > 0 else 0


def _from_base64(value: str) -> str:
    try:
        return base64.urlsafe_b64decode(value).decode("utf-8")
    except (binascii.Error, ValueError):
        return ""
