"""Reads plain JSON data into contract values: a function for each type, made once.

A report has a thousand values, and to look at the type of each anew took most of the time to read
it. A reader raises ContractError with the path of the field from where it stands: each reader that
it is called by puts its own step in front.
"""

import dataclasses
import re
import types
import typing
from collections.abc import Callable, Hashable, Mapping, Sized
from enum import StrEnum
from functools import cache
from typing import Any, TypeAlias, get_args, get_origin, get_type_hints

from agents.contract.errors import ContractError, ContractErrorCode

MAX_CHARACTERS = 65_536
# Of a list whose field has no limit of its own; those of reports are in `node_limits`.
MAX_ENTRIES = 4_096

Rules: TypeAlias = Mapping[str, Any]
Reader: TypeAlias = Callable[[Any], Any]


@dataclasses.dataclass(frozen=True, slots=True)
class WireField:
    """A field of a contract dataclass."""

    hint: Any
    rules: Rules
    is_required: bool
    read: Reader


@cache
def wire_fields(kind: Hashable) -> dict[str, WireField]:
    """The fields of a contract dataclass, by name."""
    kind = typing.cast(type, kind)
    hints = get_type_hints(kind, include_extras=True)
    return {f.name: _field(f, hints[f.name]) for f in dataclasses.fields(kind)}


@cache
def object_reader(kind: Hashable) -> Reader:
    """Reads a whole object of that dataclass."""
    make = typing.cast(type, kind)
    fields = wire_fields(kind)
    required = [name for name, field in fields.items() if field.is_required]

    def read(data: Any) -> Any:
        if not isinstance(data, dict):
            raise invalid(f"expected an object for {make.__name__}")
        values = {}
        for name, value in data.items():
            field = fields.get(name)
            if field is None:
                raise unknown(name)
            try:
                values[name] = field.read(value)
            except ContractError as error:
                raise beneath(name, error) from None
        for name in required:
            if name not in values:
                raise missing(name)
        return make(**values)

    return read


def beneath(step: str, error: ContractError) -> ContractError:
    """The same error, seen from the value that holds the one at `step`."""
    error.field = f"{step}.{error.field}" if error.field else step
    return error


def invalid(sentence: str, path: str = "") -> ContractError:
    return ContractError(ContractErrorCode.INVALID_FIELD, sentence, path)


def unknown(name: str) -> ContractError:
    # The name may be as long as the body.
    name = name[:64]
    return ContractError(ContractErrorCode.UNKNOWN_FIELD, f"{name!r} is not a field here", name)


def missing(name: str) -> ContractError:
    return ContractError(ContractErrorCode.MISSING_FIELD, f"{name!r} is needed", name)


def unannotated(hint: Any, rules: Rules) -> tuple[Any, Rules]:
    """The bare type behind an Annotated alias, and its constraints."""
    if get_origin(hint) is not typing.Annotated:
        return hint, rules
    inner, extra = get_args(hint)
    return inner, {**rules, **extra["rule"]}


def max_length(rules: Rules) -> int:
    return int(rules.get("max_length", MAX_ENTRIES))


def _field(field: dataclasses.Field[Any], hint: Any) -> WireField:
    rules: Rules = field.metadata.get("rule", {})
    nothing = dataclasses.MISSING
    is_required = field.default is nothing and field.default_factory is nothing
    return WireField(hint, rules, is_required, _reader(hint, rules))


def _reader(hint: Any, rules: Rules) -> Reader:
    hint, rules = unannotated(hint, rules)
    origin = get_origin(hint)
    if origin in (typing.Union, types.UnionType):
        return _optional(hint, rules)
    if origin is tuple:
        return _sequence(get_args(hint)[0], max_length(rules))
    if origin is dict:
        return _mapping(max_length(rules))
    if dataclasses.is_dataclass(hint):
        # Made when it is first needed: a type may hold itself.
        return lambda data: object_reader(typing.cast(Any, hint))(data)
    if isinstance(hint, type) and issubclass(hint, StrEnum):
        return _enum(hint)
    if hint is str:
        return _text(rules)
    return _number(hint, rules) if hint is int else _scalar(hint)


def _optional(hint: Any, rules: Rules) -> Reader:
    (inner,) = (a for a in get_args(hint) if a is not type(None))
    read = _reader(inner, rules)
    return lambda data: None if data is None else read(data)


def _sequence(inner: Any, limit: int) -> Reader:
    read_one = _reader(inner, {})

    def read(data: Any) -> tuple[Any, ...]:
        if not isinstance(data, list):
            raise invalid("expected a list")
        _require_length(data, limit)
        found = []
        for number, item in enumerate(data):
            try:
                found.append(read_one(item))
            except ContractError as error:
                raise beneath(str(number), error) from None
        return tuple(found)

    return read


def _mapping(limit: int) -> Reader:
    def read(data: Any) -> dict[str, str]:
        if not isinstance(data, dict):
            raise invalid("expected an object of texts")
        _require_length(data, limit)
        for key, value in data.items():
            if not isinstance(value, str):
                raise invalid("expected a text", key[:64])
            if max(len(key), len(value)) > MAX_CHARACTERS:
                raise invalid(f"at most {MAX_CHARACTERS} characters", key[:64])
        return dict(data)

    return read


def _require_length(data: Sized, limit: int) -> None:
    if len(data) > limit:
        raise invalid(f"at most {limit} entries")


def _enum(hint: type[StrEnum]) -> Reader:
    by_text: dict[Any, StrEnum] = {str(member): member for member in hint}

    def read(data: Any) -> StrEnum:
        member = by_text.get(data) if isinstance(data, str) else None
        if member is None:
            sentence = f"{str(data)[:64]!r} is unknown: expected one of {', '.join(hint)}"
            raise invalid(sentence)
        return member

    return read


def _text(rules: Rules) -> Reader:
    longest = rules.get("max_length", MAX_CHARACTERS)
    pattern = rules.get("pattern")
    matches = re.compile(pattern).fullmatch if pattern else None

    def read(data: Any) -> str:
        if not isinstance(data, str):
            raise invalid("expected str")
        if len(data) > longest:
            raise invalid(f"at most {longest} characters")
        if matches and not matches(data):
            raise invalid(f"must match {pattern}")
        return data

    return read


def _number(hint: type[int], rules: Rules) -> Reader:
    minimum, maximum = rules.get("minimum"), rules.get("maximum")

    def read(data: Any) -> int:
        # bool is an int in Python; on the wire it is not.
        if not isinstance(data, hint) or isinstance(data, bool):
            raise invalid(f"expected {hint.__name__}")
        if minimum is not None and data < minimum:
            raise invalid(f"at least {minimum}")
        if maximum is not None and data > maximum:
            raise invalid(f"at most {maximum}")
        return data

    return read


def _scalar(hint: type) -> Reader:
    def read(data: Any) -> Any:
        if not isinstance(data, hint):
            raise invalid(f"expected {hint.__name__}")
        return data

    return read
