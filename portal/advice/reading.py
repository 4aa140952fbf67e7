"""What a page, REST or the command line sends, read as a question. Nothing is guessed."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from agents.contract.message import Message
from portal.advice.question import (
    DEFAULT_BATCH,
    DEFAULT_CONCURRENCY,
    OWN_MODEL,
    AdviceQuestion,
    InvalidQuestion,
    Task,
)
from scheduler.advisor.catalogue.models import MODELS
from scheduler.advisor.errors import AdvisorError
from scheduler.advisor.model_config import shape_from_config
from scheduler.advisor.networks import ConvolutionalNetwork
from scheduler.advisor.quantisation import Quantisation
from scheduler.advisor.transformer import Recompute, Shape, resized

MAX_CONFIG_BYTES = 256 << 10
# What may be asked; larger numbers are slips of the hand.
LARGEST = {
    "batch": 65_536,
    "sequence": 1_048_576,
    "concurrency": 65_536,
    "tokens": 10**14,
    "steps": 10**9,
}
MAX_DIGITS = 16
RECOMPUTES = (Recompute.FULL, Recompute.NONE)
# Of what was typed, in a sentence.
MAX_SHOWN = 80


def read_question(values: Mapping[str, Any], file_text: str = "") -> AdviceQuestion:
    """`values`: as typed or as JSON. What is missing or empty gets its default; a task and a model
    have none. `file_text`: what is in the file that `config_file` names.

    Raises InvalidQuestion with every field at fault."""
    reader = _Reader(values, file_text)
    task = reader.word("task", Task, None)
    recompute = reader.word("recompute", RECOMPUTES, Recompute.FULL)
    quantisation = reader.word("quantisation", Quantisation, Quantisation.BF16)
    batch = reader.number("batch") or DEFAULT_BATCH
    concurrency = reader.number("concurrency") or DEFAULT_CONCURRENCY
    sequence = reader.number("sequence")
    tokens, steps = reader.number("tokens"), reader.number("steps")
    if tokens and steps:
        reader.errors["steps"] = Message("Give tokens or steps, not both")
    shape, source = reader.model()
    if reader.errors or shape is None:
        raise InvalidQuestion(reader.errors)
    if isinstance(shape, Shape):
        shape = resized(shape, sequence)
    return AdviceQuestion(
        model=str(values.get("model") or OWN_MODEL),
        source=source,
        shape=shape,
        task=Task(task),
        batch=batch,
        recompute=Recompute(recompute),
        concurrency=concurrency,
        quantisation=Quantisation(quantisation),
        tokens=tokens,
        steps=steps,
    )


@dataclass
class _Reader:
    values: Mapping[str, Any]
    file_text: str
    errors: dict[str, Message] = field(default_factory=dict)

    def word(self, name: str, known: Any, default: StrEnum | None) -> str:
        """One of the known words."""
        text = str(self.values.get(name) or default or "")
        if text not in [str(each) for each in known]:
            words = ", ".join(str(each) for each in known)
            self.errors[name] = Message("Choose one of %(words)s", words=words)
        return text

    def number(self, name: str) -> int:
        """0 where it is left out."""
        value = self.values.get(name)
        text = "" if value is None else str(value).strip()
        if not text:
            return 0
        is_short = text.isascii() and text.isdecimal() and len(text) < MAX_DIGITS
        if is_short and 1 <= int(text) <= LARGEST[name]:
            return int(text)
        sentence = "Write a whole number between 1 and %(most)s"
        self.errors[name] = Message(sentence, most=f"{LARGEST[name]:,}")
        return 0

    def model(self) -> tuple[Shape | ConvolutionalNetwork | None, str]:
        """Its shape, and where that was published."""
        name, config = str(self.values.get("model") or ""), self.values.get("config")
        file = str(self.values.get("config_file") or "")
        if file and (name or config):
            sentence = "Choose a file, or a model, or send a config.json: one of them"
            self.errors["config_file"] = Message(sentence)
        elif file:
            return self._of_config(self.file_text, "config_file"), file
        elif name and config:
            self.errors["config"] = Message("Choose a model or send its config.json, not both")
        elif config:
            return self._of_config(config, "config"), "config.json"
        elif not name:
            self.errors["model"] = Message("Choose a model, or send its config.json")
        elif name not in MODELS:
            self.errors["model"] = Message(
                "%(model)s is not in the catalogue. Choose one that is, or send the config.json of "
                "yours",
                model=repr(name[:MAX_SHOWN]),
            )
        else:
            return MODELS[name].shape, MODELS[name].source
        return None, ""

    def _of_config(self, config: Any, name: str) -> Shape | None:
        """`config`: JSON, or the text of it; `name`: the field that it came in."""
        text = config if isinstance(config, str) else json.dumps(config)
        if len(text.encode(errors="replace")) > MAX_CONFIG_BYTES:
            sentence = "It is larger than 256 KB: send the model's config.json alone"
            self.errors[name] = Message(sentence)
            return None
        try:
            read = json.loads(text)
        except (ValueError, RecursionError):
            read = None
        if not isinstance(read, dict):
            self.errors[name] = Message("It is not a JSON object: send the whole config.json")
            return None
        try:
            return shape_from_config(read)
        except AdvisorError as error:
            self.errors[name] = error.message
            return None
