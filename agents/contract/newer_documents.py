"""Reads the desired document of a portal that is newer than the agent.

An unreadable part must neither stop the rest of the node nor be carried out in part:

- a replica with an unknown field or value is kept with `unreadable` set, so that the agent refuses
  it, or leaves it alone if it runs already;
- a GPU with such an entry or slice is left out with all its slices, so that it stays as it is;
- other fields that are unknown here are ignored.

`DesiredDocument.unreadable` names the last two.
"""

from collections.abc import Iterable
from dataclasses import fields, replace
from typing import Any

from agents.contract.codec import decode, decode_field, decode_leniently
from agents.contract.documents import DesiredDocument, DesiredGpu, DesiredReplica, DesiredSlice
from agents.contract.errors import ContractError, ContractErrorCode
from agents.contract.protocol import check_protocol

LISTS = ("gpus", "slices", "replicas")
MAX_SENTENCE = 512
MAX_SENTENCES = 16


def read_newer_desired(data: Any) -> DesiredDocument:
    """Raises ContractError for another protocol, for a list that is none, and for an entry that
    does not name its replica or GPU: what would be missing then must not be taken for unwanted."""
    if not isinstance(data, dict):
        raise ContractError(ContractErrorCode.MALFORMED, "expected a desired document")
    check_protocol(data.get("protocol"))
    known = {field.name for field in fields(DesiredDocument)}
    ignored = [f"field {name!r} is unknown here" for name in data if name not in known]
    plain = {name: data[name] for name in data if name in known and name not in LISTS}
    document = decode(DesiredDocument, plain)
    gpus, gpu_errors = _gpu_entries(DesiredGpu, data, "gpus", "uuid")
    slices, slice_errors = _gpu_entries(DesiredSlice, data, "slices", "gpu_uuid")
    errors = gpu_errors | slice_errors
    left = [f"GPU {uuid} stays as it is: {why}" for uuid, why in sorted(errors.items())]
    return replace(
        document,
        gpus=tuple(gpu for gpu in gpus if gpu.uuid not in errors),
        slices=tuple(each for each in slices if each.gpu_uuid not in errors),
        replicas=tuple(_replica(*entry) for entry in _entries(data, "replicas")),
        unreadable=(
            *document.unreadable,
            *(sentence[:MAX_SENTENCE] for sentence in (ignored + left)[:MAX_SENTENCES]),
        ),
    )


def _entries(data: dict[str, Any], name: str) -> list[tuple[str, Any]]:
    """Each entry of a list with its path."""
    entries = data.get(name, [])
    if not isinstance(entries, list):
        raise ContractError(ContractErrorCode.INVALID_FIELD, "expected a list", name)
    return [(f"{name}.{index}.", entry) for index, entry in enumerate(entries)]


def _gpu_entries(
    kind: type[Any], data: dict[str, Any], name: str, key: str
) -> tuple[list[Any], dict[str, str]]:
    """The entries that can be read, and by GPU why another one cannot."""
    read, errors = [], {}
    for path, entry in _entries(data, name):
        try:
            read.append(decode(kind, entry, path))
        except ContractError as error:
            uuid = entry.get(key) if isinstance(entry, dict) else None
            errors[decode_field(kind, key, uuid, path)] = _sentence((error,))
    return read, errors


def _replica(path: str, entry: Any) -> DesiredReplica:
    replica, errors = decode_leniently(DesiredReplica, entry, path)
    return replace(replica, unreadable=_sentence(errors)) if errors else replica


def _sentence(errors: Iterable[ContractError]) -> str:
    """Without the places of entries in their lists, which differ from document to document."""
    parts = (f"{_field(error.field)}: {error.sentence}" for error in errors)
    return "; ".join(parts)[:MAX_SENTENCE]


def _field(path: str) -> str:
    return path.split(".", 2)[-1]
