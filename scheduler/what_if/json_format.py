"""Changes as JSON, such as {"kind": "quota", "project": "vision", "units": 896000}, and as the
arguments of the command line."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import MISSING, asdict, fields
from fractions import Fraction
from typing import Any

from agents.contract.message import Message
from agents.contract.units import UNITS_PER_GPU
from scheduler.core.model.policy import Policy
from scheduler.what_if.changes import (
    ClusterChange,
    LayoutPinned,
    ModeSet,
    NodeRemoved,
    NodesAdded,
    PolicySet,
    QuotaSet,
)
from scheduler.what_if.errors import ChangeRefusedError

KINDS: dict[str, type[ClusterChange]] = {
    each.kind: each
    for each in (QuotaSet, NodesAdded, NodeRemoved, LayoutPinned, ModeSet, PolicySet)
}
MAX_CHANGES = 50
MAX_CHARACTERS = 200
MAX_PROFILES = 16
# As `Fraction` reads it, without an exponent: 1e99999999 takes minutes and all of the memory.
NUMBER = re.compile(r"[0-9]{1,12}(\.[0-9]{0,12})?(/[0-9]{1,12})?")
TRUE_FALSE = {"true": True, "false": False, "on": True, "off": False}


def read_changes(stored: Iterable[Any]) -> tuple[ClusterChange, ...]:
    """Raises ChangeRefusedError; its `field` begins with the number of the change, from 0."""
    stored = list(stored)
    if len(stored) > MAX_CHANGES:
        raise ChangeRefusedError(Message("Send at most %(most)s changes at once", most=MAX_CHANGES))
    found = []
    for number, one in enumerate(stored):
        try:
            found.append(read_change(one))
        except ChangeRefusedError as refused:
            field = f"{number}.{refused.field}" if refused.field else str(number)
            raise ChangeRefusedError(refused.message, field) from refused
    return tuple(found)


def read_change(stored: Any) -> ClusterChange:
    """One change. Whether it fits the cluster is checked when it is applied."""
    if not isinstance(stored, Mapping):
        raise ChangeRefusedError("A change is an object with a kind")
    kind = KINDS.get(str(stored.get("kind")))
    if kind is None:
        choices = Message("A change is one of %(words)s", words=", ".join(KINDS))
        raise ChangeRefusedError(choices, "kind")
    known = {field.name: field for field in fields(kind)}
    for name in stored:
        if name not in known and name != "kind":
            unknown = Message(
                "A change of kind %(kind)s has no %(name)s", kind=kind.kind, name=str(name)
            )
            raise ChangeRefusedError(unknown, str(name))
    values: dict[str, Any] = {}
    for name, field in known.items():
        if name in stored:
            values[name] = _value(name, field.type, stored[name])
        elif field.default is MISSING:
            missing = Message("A change of kind %(kind)s needs %(name)s", kind=kind.kind, name=name)
            raise ChangeRefusedError(missing, name)
    return kind(**values)


def write_change(change: ClusterChange) -> dict[str, Any]:
    return {"kind": change.kind} | asdict(change)


def _value(name: str, kind: Any, value: Any) -> Any:
    """The value with the type of the change's field. Raises ChangeRefusedError."""
    if kind is int:
        if isinstance(value, bool) or not isinstance(value, int):
            raise ChangeRefusedError(Message("%(name)s must be a whole number", name=name), name)
        return value
    if kind not in (str, Any):
        texts = value if isinstance(value, (list, tuple)) else [None]
        if len(texts) > MAX_PROFILES or not all(_is_text(each) for each in texts):
            message = Message(
                "%(name)s must be a list of at most %(most)s profile names",
                name=name,
                most=MAX_PROFILES,
            )
            raise ChangeRefusedError(message, name)
        return tuple(texts)
    if kind is str:
        if not _is_text(value):
            raise ChangeRefusedError(Message("%(name)s must be a string", name=name), name)
        return value
    if not isinstance(value, (str, int, float)):
        raise ChangeRefusedError(Message("%(name)s must be a string or a number", name=name), name)
    return value


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and len(value) <= MAX_CHARACTERS


def parse_quota(word: str) -> QuotaSet:
    """`vision=16` in GPUs; `vision/alice=2` of a user; `vision:H200=8` of a model."""
    owner, found, gpus = word.partition("=")
    owner, _, model = owner.partition(":")
    project, _, user = owner.partition("/")
    if not found or not project:
        raise _unreadable(word, "PROJECT[/USER][:MODEL]=GPUS", "vision=16")
    try:
        if not NUMBER.fullmatch(gpus):
            raise ValueError
        units = Fraction(gpus) * UNITS_PER_GPU
    except (ValueError, ZeroDivisionError) as wrong:
        message = Message(
            "%(gpus)s is not a number of GPUs. Write a number such as 4, 0.5 or 2/7",
            gpus=repr(gpus[:MAX_CHARACTERS]),
        )
        raise ChangeRefusedError(message) from wrong
    if units.denominator != 1:
        message = Message(
            "%(gpus)s GPUs are not a whole number of units; one GPU is %(units)s",
            gpus=gpus,
            units=UNITS_PER_GPU,
        )
        raise ChangeRefusedError(message)
    return QuotaSet(project, int(units), user, model)


def parse_nodes(word: str) -> NodesAdded:
    """`2:node-a`: two more like node-a."""
    many, found, like = word.partition(":")
    if not found or not like or not (many.isascii() and many.isdecimal()):
        raise _unreadable(word, "COUNT:NODE", "2:node-a")
    return NodesAdded(int(many[:9]), like)


def parse_layout(word: str) -> LayoutPinned:
    """`node-a/0=3g.71gb+2g.35gb`: GPU 0 of node-a."""
    gpu, found, profiles = word.partition("=")
    node, _, index = gpu.rpartition("/")
    if not found or not node or not (index.isascii() and index.isdecimal()):
        raise _unreadable(word, "NODE/INDEX=PROFILE+PROFILE", "node-a/0=3g.71gb+2g.35gb")
    return LayoutPinned(node, int(index[:9]), tuple(p for p in profiles.split("+") if p))


def parse_mode(word: str) -> ModeSet:
    """`H200=mig`."""
    model, found, mode = word.partition("=")
    if not found or not model:
        raise _unreadable(word, "MODEL=MODE", "H200=mig")
    return ModeSet(model, mode)


def parse_policy(word: str) -> PolicySet:
    """`backfill=conservative`, `moves=4`, `merge=false`."""
    name, found, text = word.partition("=")
    if not found or not name:
        raise _unreadable(word, "OPTION=VALUE", "backfill=conservative")
    return PolicySet(name, _option_text(name, text))


def _unreadable(word: str, form: str, example: str) -> ChangeRefusedError:
    return ChangeRefusedError(
        Message(
            "Write %(word)s as %(form)s, such as %(example)s",
            word=repr(word[:MAX_CHARACTERS]),
            form=form,
            example=example,
        )
    )


def _option_text(name: str, text: str) -> Any:
    """A number if it reads as one. `preemption=off` is a string, `merge=off` is a boolean."""
    if isinstance(getattr(Policy(), name, None), bool):
        return TRUE_FALSE.get(text, text)
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text
