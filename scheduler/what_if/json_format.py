"""Changes as JSON, such as {"kind": "quota", "project": "vision", "units": 896000}, and as the
arguments of the command line."""

from collections.abc import Iterable, Mapping
from dataclasses import MISSING, asdict, fields
from fractions import Fraction
from typing import Any

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
TRUE_FALSE = {"true": True, "false": False, "on": True, "off": False}


def read_changes(stored: Iterable[Any]) -> tuple[ClusterChange, ...]:
    """Raises ChangeRefusedError; its `field` begins with the number of the change, from 0."""
    stored = list(stored)
    if len(stored) > MAX_CHANGES:
        raise ChangeRefusedError(f"Send at most {MAX_CHANGES} changes at once")
    found = []
    for number, one in enumerate(stored):
        try:
            found.append(read_change(one))
        except ChangeRefusedError as refused:
            field = f"{number}.{refused.field}" if refused.field else str(number)
            raise ChangeRefusedError(refused.sentence, field) from refused
    return tuple(found)


def read_change(stored: Any) -> ClusterChange:
    """One change. Whether it fits the cluster is checked when it is applied."""
    if not isinstance(stored, Mapping):
        raise ChangeRefusedError("A change is an object with a kind")
    kind = KINDS.get(str(stored.get("kind")))
    if kind is None:
        raise ChangeRefusedError(f"A change is one of {', '.join(KINDS)}", "kind")
    known = {field.name: field for field in fields(kind)}
    for name in stored:
        if name not in known and name != "kind":
            raise ChangeRefusedError(f"A change of kind {kind.kind} has no {name}", str(name))
    values: dict[str, Any] = {}
    for name, field in known.items():
        if name in stored:
            values[name] = _value(name, field.type, stored[name])
        elif field.default is MISSING:
            raise ChangeRefusedError(f"A change of kind {kind.kind} needs {name}", name)
    return kind(**values)


def write_change(change: ClusterChange) -> dict[str, Any]:
    return {"kind": change.kind} | asdict(change)


def _value(name: str, kind: Any, value: Any) -> Any:
    """The value with the type of the change's field. Raises ChangeRefusedError."""
    if kind is int:
        if isinstance(value, bool) or not isinstance(value, int):
            raise ChangeRefusedError(f"{name} must be a whole number", name)
        return value
    if kind not in (str, Any):
        texts = value if isinstance(value, (list, tuple)) else [None]
        if len(texts) > MAX_PROFILES or not all(_is_text(each) for each in texts):
            sentence = f"{name} must be a list of at most {MAX_PROFILES} profile names"
            raise ChangeRefusedError(sentence, name)
        return tuple(texts)
    if kind is str:
        if not _is_text(value):
            raise ChangeRefusedError(f"{name} must be a string", name)
        return value
    if not isinstance(value, (str, int, float)):
        raise ChangeRefusedError(f"{name} must be a string or a number", name)
    return value


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and len(value) <= MAX_CHARACTERS


def parse_quota(word: str) -> QuotaSet:
    """`vision=16` in GPUs; `vision/alice=2` of a user; `vision:H200=8` of a model."""
    owner, found, gpus = word.partition("=")
    owner, _, model = owner.partition(":")
    project, _, user = owner.partition("/")
    if not found or not project:
        raise ChangeRefusedError(f"Write {word!r} as PROJECT[/USER][:MODEL]=GPUS")
    try:
        units = Fraction(gpus) * UNITS_PER_GPU
    except (ValueError, ZeroDivisionError) as wrong:
        raise ChangeRefusedError(
            f"{gpus!r} is not a number of GPUs. Write {word!r} as {owner}=16"
        ) from wrong
    if units.denominator != 1:
        raise ChangeRefusedError(
            f"{gpus} GPUs are not a whole number of units; one GPU is {UNITS_PER_GPU}"
        )
    return QuotaSet(project, int(units), user, model)


def parse_nodes(word: str) -> NodesAdded:
    """`2:node-a`: two more like node-a."""
    many, found, like = word.partition(":")
    if not found or not like or not (many.isascii() and many.isdecimal()):
        raise ChangeRefusedError(f"Write {word!r} as COUNT:NODE, such as 2:node-a")
    return NodesAdded(int(many[:9]), like)


def parse_layout(word: str) -> LayoutPinned:
    """`node-a/0=3g.71gb+2g.35gb`: GPU 0 of node-a."""
    gpu, found, profiles = word.partition("=")
    node, _, index = gpu.rpartition("/")
    if not found or not node or not (index.isascii() and index.isdecimal()):
        raise ChangeRefusedError(f"Write {word!r} as NODE/INDEX=PROFILE+PROFILE")
    return LayoutPinned(node, int(index[:9]), tuple(p for p in profiles.split("+") if p))


def parse_mode(word: str) -> ModeSet:
    """`H200=mig`."""
    model, found, mode = word.partition("=")
    if not found or not model:
        raise ChangeRefusedError(f"Write {word!r} as MODEL=MODE, such as H200=mig")
    return ModeSet(model, mode)


def parse_policy(word: str) -> PolicySet:
    """`backfill=conservative`, `moves=4`, `merge=false`."""
    name, found, text = word.partition("=")
    if not found or not name:
        raise ChangeRefusedError(f"Write {word!r} as OPTION=VALUE, such as backfill=conservative")
    return PolicySet(name, _option_text(name, text))


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
