"""What a portal that is older than this agent does not know is left out of the reports to it.

Only later fields can be: who does not know one takes it for its default.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import fields, is_dataclass, replace
from typing import Any

from agents.contract.documents import ObservedDocument
from agents.contract.errors import ContractError, ContractErrorCode

# Names of fields, without the places of entries in their lists.
FieldPath = tuple[str, ...]
OVERLAY: FieldPath = ("facts", "overlay")


def unknown_field(refused: ContractError, document: ObservedDocument) -> FieldPath | None:
    """The later field of this document that the portal does not know; None if it refused anything
    else."""
    if refused.code is not ContractErrorCode.UNKNOWN_FIELD:
        return None
    first, *steps = refused.field.split(".")
    path = tuple(step for step in steps if not step.isdecimal())
    is_later = first == "observed" and any(_later(document, path))
    return path if is_later else None


def without_fields(document: ObservedDocument, paths: Iterable[FieldPath]) -> ObservedDocument:
    """Without these later fields."""
    left_out = set(paths)
    for path in left_out:
        document = _without(document, path)
    if OVERLAY in left_out:
        # Nodes share gangs by their fabric, and that portal gives none a network.
        alone = f"alone:{document.node}"
        return replace(document, facts=replace(document.facts, fabric=alone))
    return document


def _later(value: Any, path: Sequence[str]) -> Iterator[bool]:
    """For each place of the path in the value, whether a later field is there."""
    if isinstance(value, tuple):
        for each in value:
            yield from _later(each, path)
    elif is_dataclass(value) and path:
        field = next((each for each in fields(value) if each.name == path[0]), None)
        if field and path[1:]:
            yield from _later(getattr(value, field.name), path[1:])
        elif field:
            yield "later" in field.metadata


def _without(value: Any, path: Sequence[str]) -> Any:
    if isinstance(value, tuple):
        return tuple(_without(each, path) for each in value)
    if value is None:
        return None
    name = path[0]
    if path[1:]:
        return replace(value, **{name: _without(getattr(value, name), path[1:])})
    (default,) = (each.default for each in fields(value) if each.name == name)
    return replace(value, **{name: default})
