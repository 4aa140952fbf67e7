"""Converts frozen dataclasses to JSON and back, strictly; their types also give the JSON schema.

Supported types: str, int, bool, StrEnum, None unions, tuple[T, ...], dict[str, str], dataclasses.
Constraints are in a field's metadata or in Annotated: `minimum`, `maximum` (int), `max_length`
(str, tuple, dict), `pattern` (str).
"""

import dataclasses
import types
import typing
from enum import StrEnum
from functools import cache
from typing import Any, TypeVar, get_args, get_origin

from agents.contract.errors import ContractError
from agents.contract.field_readers import (
    MAX_CHARACTERS,
    Rules,
    beneath,
    invalid,
    max_length,
    missing,
    object_reader,
    unannotated,
    unknown,
    wire_fields,
)

T = TypeVar("T")
PLAIN = (str, int, bool, type(None))


def rule(**constraints: Any) -> dict[str, Any]:
    """Constraints of a field, for `dataclasses.field(metadata=rule(minimum=0))`."""
    return {"rule": constraints}


def omitted_by_default(**constraints: Any) -> dict[str, Any]:
    """As `rule`, for a field that older readers do not know.

    It is left out while it has its default, so that they can read documents that do not use it."""
    return rule(**constraints) | {"later": True}


def encode(value: Any) -> Any:
    """Turn a contract value into plain JSON data."""
    kind = type(value)
    if kind in PLAIN:
        return value
    if names := _written_fields(typing.cast(Any, kind)):
        read = ((name, getattr(value, name), left_out) for name, left_out in names)
        return {name: encode(v) for name, v, left_out in read if not left_out or v != left_out[0]}
    if isinstance(value, StrEnum):
        return str(value)
    if isinstance(value, list | tuple):
        return [encode(item) for item in value]
    return dict(value) if isinstance(value, dict) else value


@cache
def _written_fields(kind: Any) -> tuple[tuple[str, tuple[Any, ...]], ...]:
    """The fields of a dataclass, each with the value at which it is left out, if there is one."""
    if not dataclasses.is_dataclass(kind):
        return ()
    return tuple(
        (field.name, (field.default,) if "later" in field.metadata else ())
        for field in dataclasses.fields(kind)
    )


def decode(kind: type[T], data: Any, path: str = "") -> T:
    """Turn plain JSON data into a value of type `kind`.

    Raises ContractError with the dotted path of the first field that is missing, unknown or
    invalid.
    """
    try:
        value: T = object_reader(typing.cast(Any, kind))(data)
    except ContractError as error:
        raise _at(path, error) from None
    return value


def decode_leniently(
    kind: type[T], data: Any, path: str = ""
) -> tuple[T, tuple[ContractError, ...]]:
    """As `decode`, for data of a newer writer: a field that is unknown or invalid is left out, and
    the errors name it.

    Raises ContractError if a required field is missing or invalid.
    """
    if not isinstance(data, dict):
        raise _at(path, invalid(f"expected an object for {kind.__name__}"))
    fields = wire_fields(typing.cast(Any, kind))
    values, errors = {}, []
    for name, value in data.items():
        try:
            values[name] = decode_field(kind, name, value, path)
        except ContractError as error:
            if name in fields and fields[name].is_required:
                raise
            errors.append(error)
    for name, field in fields.items():
        if field.is_required and name not in values:
            raise _at(path, missing(name))
    return kind(**values), tuple(errors)


def decode_field(kind: type, name: str, value: Any, path: str = "") -> Any:
    """One field of `kind`. Raises ContractError if it is unknown or invalid."""
    field = wire_fields(typing.cast(Any, kind)).get(name)
    try:
        if field is None:
            raise unknown(name)
        return field.read(value)
    except ContractError as error:
        raise _at(path, error if field is None else beneath(name, error)) from None


def _at(path: str, error: ContractError) -> ContractError:
    """`path`: of the object in which the error is; empty, or with a dot at its end."""
    return beneath(path.rstrip("."), error) if path else error


def schema(kind: type) -> dict[str, Any]:
    """The JSON schema (draft 2020-12) of a contract dataclass."""
    definitions: dict[str, Any] = {}
    root = _object_schema(kind, definitions)
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": kind.__name__,
        **root,
        "$defs": definitions,
    }


def _object_schema(kind: type, definitions: dict[str, Any]) -> dict[str, Any]:
    fields = wire_fields(typing.cast(Any, kind))
    return {
        "type": "object",
        "additionalProperties": False,
        "required": [name for name, field in fields.items() if field.is_required],
        "properties": {
            name: _schema_of(field.hint, field.rules, definitions) for name, field in fields.items()
        },
    }


def _schema_of(hint: Any, rules: Rules, definitions: dict[str, Any]) -> dict[str, Any]:
    hint, rules = unannotated(hint, rules)
    origin = get_origin(hint)
    if origin in (typing.Union, types.UnionType):
        (inner,) = (a for a in get_args(hint) if a is not type(None))
        return {"anyOf": [_schema_of(inner, rules, definitions), {"type": "null"}]}
    if origin is tuple:
        items = _schema_of(get_args(hint)[0], {}, definitions)
        return {"type": "array", "items": items, "maxItems": max_length(rules)}
    if origin is dict:
        text = {"type": "string", "maxLength": MAX_CHARACTERS}
        limit = max_length(rules)
        return {"type": "object", "maxProperties": limit, "additionalProperties": text}
    if dataclasses.is_dataclass(hint):
        return _reference(typing.cast(type, hint), definitions)
    if isinstance(hint, type) and issubclass(hint, StrEnum):
        return {"type": "string", "enum": [str(word) for word in hint]}
    return _scalar_schema(hint, rules)


def _reference(kind: type, definitions: dict[str, Any]) -> dict[str, Any]:
    if kind.__name__ not in definitions:
        definitions[kind.__name__] = {}
        definitions[kind.__name__] = _object_schema(kind, definitions)
    return {"$ref": f"#/$defs/{kind.__name__}"}


def _scalar_schema(hint: Any, rules: Rules) -> dict[str, Any]:
    if hint is bool:
        return {"type": "boolean"}
    if hint is int:
        limits = {k: v for k, v in rules.items() if k in ("minimum", "maximum")}
        return {"type": "integer", **limits}
    words: dict[str, Any] = {"type": "string", "maxLength": rules.get("max_length", MAX_CHARACTERS)}
    if "pattern" in rules:
        words["pattern"] = f"^(?:{rules['pattern']})$"
    return words
