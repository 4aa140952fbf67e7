"""Messages between agents and portals, which may be of different versions.

A message travels beside its English sentence. A portal that does not know the key, or to which the
message makes no sense, shows the sentence.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from agents.contract.codec import rule
from agents.contract.message import VERBATIM, Message, read_message, verbatim

# A message whose text is longer than the sentence may be is no message. Neither is one with such a
# value: a key can repeat it hundreds of times.
MAX_TEXT = 1_024


@dataclass(frozen=True, slots=True)
class WirePart:
    """A message that is a value of another one."""

    name: str = field(metadata=rule(max_length=64))
    key: str = field(metadata=rule(max_length=MAX_TEXT))
    values: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class WireMessage:
    """A message as it is sent."""

    key: str = field(metadata=rule(max_length=MAX_TEXT))
    values: dict[str, str] = field(default_factory=dict)
    parts: tuple[WirePart, ...] = field(default=(), metadata=rule(max_length=16))


def to_wire(message: Message) -> WireMessage | None:
    """None for text that no reader translates. Messages inside those inside it are sent as
    English."""
    if not message or message.key == VERBATIM:
        return None
    values, parts = {}, []
    for name, value in message.values.items():
        if isinstance(value, dict):
            inner = {n: str(Message(VERBATIM, words=v)) for n, v in value["values"].items()}
            parts.append(WirePart(name, value["key"], inner))
        else:
            values[name] = str(Message(VERBATIM, words=value))
    return WireMessage(message.key, values, tuple(parts))


def from_wire(wire: WireMessage | None, sentence: str) -> Message:
    """The message, or the sentence that came with it."""
    if wire is None:
        return verbatim(sentence)
    message = _read(wire.key, wire.values, wire.parts)
    return message if message and message.text.strip() else verbatim(sentence)


def _read(key: str, values: Mapping[str, str], parts: Iterable[WirePart] = ()) -> Message | None:
    """None if it makes no sense here."""
    read: dict[str, Any] = dict(values)
    for part in parts:
        if (inner := _read(part.key, part.values)) is None:
            return None
        read[part.name] = inner.as_dict()
    if any(len(value) > MAX_TEXT for value in values.values()):
        return None
    message = read_message({"key": key, "values": read})
    return None if message is None or len(message.text) > MAX_TEXT else message
