"""A job request as a `tessera submit` command, for pages and scripts. Pure."""

import shlex
from collections.abc import Iterator, Mapping
from typing import Any

from scheduler.core.request_fields import (
    FIELDS,
    DefaultRule,
    FieldKind,
    RequestField,
    count_range_words,
    volume_words,
)


def as_command(request: Mapping[str, Any]) -> str:
    """A request as one shell line that is safe to paste. Fields that it leaves out get the defaults
    of `tessera submit`; a variable whose value is None is passed on."""
    words = [word for flag in _flags(request) for word in flag]
    return shlex.join(["tessera", "submit", *words, *_command(request)])


def as_command_lines(request: Mapping[str, Any]) -> str:
    """The same, a line for each flag."""
    parts = filter(None, [*_flags(request), _command(request)])
    return " \\\n  ".join(["tessera submit", *map(shlex.join, parts)])


def _command(request: Mapping[str, Any]) -> list[str]:
    """Empty for an image's own program."""
    words = [str(word) for word in request["command"]]
    return ["--", *words] if words else []


def _flags(request: Mapping[str, Any]) -> Iterator[list[str]]:
    """The words of each flag that the request needs."""
    for field in FIELDS:
        value = field.value_in(request)
        if field.flags and not _is_default(request, field, value):
            yield from _field_flags(field, value)


def _is_default(request: Mapping[str, Any], field: RequestField, value: Any) -> bool:
    """Whether a submit without the flag would have the same value, wherever it is made."""
    if value in (None, [], {}):
        return True
    match field.default:
        case DefaultRule.LAUNCHER:
            return bool(request.get("launcher", "none") == "none")
        case DefaultRule.PRIORITY:
            is_low = request.get("priority") == "low"
            return bool(value) is is_low
    return bool(value == field.default)


def _field_flags(field: RequestField, value: Any) -> Iterator[list[str]]:
    flag = field.flags[0]
    match field.kind:
        case FieldKind.YES_NO:
            yield [flag if value else f"--no-{flag.removeprefix('--')}"]
        case FieldKind.COUNT_RANGE:
            yield _flag(flag, count_range_words(value))
        case FieldKind.SHARE:
            yield _flag(flag, f"{value['threads']}:{value['memory']}")
        case FieldKind.VARIABLES:
            for name, text in value.items():
                yield _flag(flag, name if text is None else f"{name}={text}")
        case FieldKind.VOLUMES:
            for volume in value:
                yield _flag(flag, volume_words(volume))
        case FieldKind.WORDS:
            for word in value:
                yield _flag(flag, word)
        case _:
            yield _flag(flag, value)


def _flag(flag: str, value: object) -> list[str]:
    """Two words, or one if the value looks like a flag."""
    text = str(value)
    return [f"{flag}={text}"] if text.startswith("-") else [flag, text]
