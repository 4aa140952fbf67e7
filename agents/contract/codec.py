"""Converts frozen dataclasses to JSON and back, strictly; their types also give the JSON schema.

Supported types: str, int, bool, StrEnum, None unions, tuple[T, ...], dict[str, str], dataclasses.
Constraints are in a field's metadata or in Annotated: `minimum`, `maximum` (int), `max_length`
(str, tuple, dict), `pattern` (str).
"""

import dataclasses
import re
import types
import typing
from collections.abc import Hashable, Sized
from enum import StrEnum
from functools import cache
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

from agents.contract.errors import ContractError, ContractErrorCode

T = TypeVar("T")
MAX_CHARACTERS = 65_536
# Of a list whose field has no limit of its own; those of reports are in `node_limits`.
MAX_ENTRIES = 4_096


def rule(**constraints: Any) -> dict[str, Any]:
    """Constraints of a field, for `dataclasses.field(metadata=rule(minimum=0))`."""
    return {"rule": constraints}


def omitted_by_default(**constraints: Any) -> dict[str, Any]:
    """As `rule`, for a field that older readers do not know.

    It is left out while it has its default, so that they can read documents that do not use it."""
    return rule(**constraints) | {"later": True}


def encode(value: Any) -> Any:
    """Turn a contract value into plain JSON data."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        pairs = ((f, getattr(value, f.name)) for f in dataclasses.fields(value))
        return {f.name: encode(v) for f, v in pairs if not _is_omitted(f, v)}
    if isinstance(value, StrEnum):
        return str(value)
    if isinstance(value, list | tuple):
        return [encode(item) for item in value]
    return dict(value) if isinstance(value, dict) else value


def decode(kind: type[T], data: Any, path: str = "") -> T:
    """Turn plain JSON data into a value of type `kind`.

    Raises ContractError with the dotted path of the first field that is missing, unknown or
    invalid.
    """
    if not isinstance(data, dict):
        raise _invalid(path, f"expected an object for {kind.__name__}")
    values = {name: decode_field(kind, name, value, path) for name, value in data.items()}
    return _complete(kind, values, path)


def decode_leniently(
    kind: type[T], data: Any, path: str = ""
) -> tuple[T, tuple[ContractError, ...]]:
    """As `decode`, for data of a newer writer: a field that is unknown or invalid is left out, and
    the errors name it.

    Raises ContractError if a required field is missing or invalid.
    """
    if not isinstance(data, dict):
        raise _invalid(path, f"expected an object for {kind.__name__}")
    fields = _fields(typing.cast(Any, kind))
    values, errors = {}, []
    for name, value in data.items():
        try:
            values[name] = decode_field(kind, name, value, path)
        except ContractError as error:
            if name in fields and _is_required(fields[name][0]):
                raise
            errors.append(error)
    return _complete(kind, values, path), tuple(errors)


def decode_field(kind: type, name: str, value: Any, path: str = "") -> Any:
    """One field of `kind`. Raises ContractError if it is unknown or invalid."""
    fields = _fields(typing.cast(Any, kind))
    if name not in fields:
        # The name may be as long as the body.
        name = name[:64]
        raise ContractError(
            ContractErrorCode.UNKNOWN_FIELD, f"{name!r} is not a field here", f"{path}{name}"
        )
    field, hint = fields[name]
    return _value(hint, value, f"{path}{name}", _rule(field))


def _complete(kind: type[T], values: dict[str, Any], path: str) -> T:
    """Raises ContractError for a missing field that is required."""
    for name, (field, _) in _fields(typing.cast(Any, kind)).items():
        if name not in values and _is_required(field):
            raise ContractError(
                ContractErrorCode.MISSING_FIELD, f"{name!r} is needed", f"{path}{name}"
            )
    return kind(**values)


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


@cache
def _fields(kind: Hashable) -> dict[str, tuple[dataclasses.Field[Any], Any]]:
    kind = typing.cast(type, kind)
    hints = get_type_hints(kind, include_extras=True)
    return {f.name: (f, hints[f.name]) for f in dataclasses.fields(kind)}


def _is_omitted(field: dataclasses.Field[Any], value: Any) -> bool:
    return "later" in field.metadata and bool(value == field.default)


def _unannotated(hint: Any, rules: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    """The bare type behind an Annotated alias, and its constraints."""
    if get_origin(hint) is not typing.Annotated:
        return hint, rules
    inner, extra = get_args(hint)
    return inner, rules | extra["rule"]


def _is_required(field: dataclasses.Field[Any]) -> bool:
    missing = dataclasses.MISSING
    return field.default is missing and field.default_factory is missing


def _rule(field: dataclasses.Field[Any]) -> dict[str, Any]:
    found: dict[str, Any] = field.metadata.get("rule", {})
    return found


def _invalid(path: str, sentence: str) -> ContractError:
    return ContractError(ContractErrorCode.INVALID_FIELD, sentence, path.rstrip("."))


def _value(hint: Any, data: Any, path: str, rules: dict[str, Any]) -> Any:
    hint, rules = _unannotated(hint, rules)
    origin = get_origin(hint)
    if origin in (typing.Union, types.UnionType):
        return _optional(hint, data, path, rules)
    if origin is tuple:
        return _sequence(hint, data, path, rules)
    if origin is dict:
        return _mapping(data, path, rules)
    if dataclasses.is_dataclass(hint):
        return decode(typing.cast(type, hint), data, f"{path}.")
    if isinstance(hint, type) and issubclass(hint, StrEnum):
        return _enum(hint, data, path)
    return _scalar(hint, data, path, rules)


def _optional(hint: Any, data: Any, path: str, rules: dict[str, Any]) -> Any:
    if data is None:
        return None
    (inner,) = (a for a in get_args(hint) if a is not type(None))
    return _value(inner, data, path, rules)


def _sequence(hint: Any, data: Any, path: str, rules: dict[str, Any]) -> tuple[Any, ...]:
    if not isinstance(data, list):
        raise _invalid(path, "expected a list")
    _require_length(data, path, rules)
    inner = get_args(hint)[0]
    return tuple(_value(inner, item, f"{path}.{i}", {}) for i, item in enumerate(data))


def _require_length(data: Sized, path: str, rules: dict[str, Any]) -> None:
    limit = _max_length(rules)
    if len(data) > limit:
        raise _invalid(path, f"at most {limit} entries")


def _max_length(rules: dict[str, Any]) -> int:
    return int(rules.get("max_length", MAX_ENTRIES))


def _mapping(data: Any, path: str, rules: dict[str, Any]) -> dict[str, str]:
    if not isinstance(data, dict):
        raise _invalid(path, "expected an object of texts")
    _require_length(data, path, rules)
    for key, value in data.items():
        if not isinstance(value, str):
            raise _invalid(f"{path}.{key[:64]}", "expected a text")
        if max(len(key), len(value)) > MAX_CHARACTERS:
            raise _invalid(f"{path}.{key[:64]}", f"at most {MAX_CHARACTERS} characters")
    return dict(data)


def _enum(hint: type[StrEnum], data: Any, path: str) -> StrEnum:
    try:
        return hint(data)
    except ValueError:
        sentence = f"{str(data)[:64]!r} is unknown: expected one of {', '.join(hint)}"
        raise _invalid(path, sentence) from None


def _scalar(hint: Any, data: Any, path: str, rules: dict[str, Any]) -> Any:
    # bool is an int in Python; on the wire it is not.
    if not isinstance(data, hint) or (hint is int and isinstance(data, bool)):
        raise _invalid(path, f"expected {hint.__name__}")
    if hint is str:
        return _text(data, path, rules)
    if "minimum" in rules and data < rules["minimum"]:
        raise _invalid(path, f"at least {rules['minimum']}")
    if "maximum" in rules and data > rules["maximum"]:
        raise _invalid(path, f"at most {rules['maximum']}")
    return data


def _text(data: str, path: str, rules: dict[str, Any]) -> str:
    longest = rules.get("max_length", MAX_CHARACTERS)
    if len(data) > longest:
        raise _invalid(path, f"at most {longest} characters")
    if "pattern" in rules and not re.fullmatch(rules["pattern"], data):
        raise _invalid(path, f"must match {rules['pattern']}")
    return data


def _object_schema(kind: type, definitions: dict[str, Any]) -> dict[str, Any]:
    fields = _fields(typing.cast(Any, kind))
    return {
        "type": "object",
        "additionalProperties": False,
        "required": [n for n, (f, _) in fields.items() if _is_required(f)],
        "properties": {
            n: _schema_of(hint, _rule(f), definitions) for n, (f, hint) in fields.items()
        },
    }


def _schema_of(hint: Any, rules: dict[str, Any], definitions: dict[str, Any]) -> dict[str, Any]:
    hint, rules = _unannotated(hint, rules)
    origin = get_origin(hint)
    if origin in (typing.Union, types.UnionType):
        (inner,) = (a for a in get_args(hint) if a is not type(None))
        return {"anyOf": [_schema_of(inner, rules, definitions), {"type": "null"}]}
    if origin is tuple:
        items = _schema_of(get_args(hint)[0], {}, definitions)
        return {"type": "array", "items": items, "maxItems": _max_length(rules)}
    if origin is dict:
        text = {"type": "string", "maxLength": MAX_CHARACTERS}
        limit = _max_length(rules)
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


def _scalar_schema(hint: Any, rules: dict[str, Any]) -> dict[str, Any]:
    if hint is bool:
        return {"type": "boolean"}
    if hint is int:
        limits = {k: v for k, v in rules.items() if k in ("minimum", "maximum")}
        return {"type": "integer", **limits}
    words: dict[str, Any] = {"type": "string", "maxLength": rules.get("max_length", MAX_CHARACTERS)}
    if "pattern" in rules:
        words["pattern"] = f"^(?:{rules['pattern']})$"
    return words
