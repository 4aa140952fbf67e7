"""Reads the device of a request: exactly one kind of device, and what narrows the choice."""

import re
from collections.abc import Mapping
from typing import Any

from agents.combinations.combination import CombinationVerdict
from agents.combinations.shape import GangShape
from agents.combinations.table import matching
from agents.contract.documents import SliceKind
from agents.contract.message import Message
from scheduler.core.model.snapshot import DeviceRequest, Isolation
from scheduler.core.request.quantities import read_memory_mib
from scheduler.core.request.typed_text import probably_meant, without_blanks
from scheduler.core.request.values import ProblemCode, Refuse
from scheduler.core.request_fields import BY_NAME, FIELDS, FieldKind

DEVICE_KINDS = ("gpus", "mig", "mps", "memory")
_SLICE_KINDS = {"gpus": SliceKind.GPU, "mig": SliceKind.MIG, "mps": SliceKind.MPS}
PROFILE = re.compile(r"[1-9]g\.[0-9]{1,3}gb(?:[+-][a-z.]{1,8})?")
MODEL = re.compile(r"[A-Za-z0-9][A-Za-z0-9 ._-]{0,63}")
DEVICE_PARTS = frozenset(field.part for field in FIELDS if field.top == "device")
MAX_GPUS = BY_NAME["device.gpus"].maximum
# A request that names a share accepts its isolation.
_USUAL = {"mps": Isolation.ANY}


def read_device(value: Any, refuse: Refuse) -> DeviceRequest:
    """The device request. Problems go to `refuse`; the result is then incomplete."""
    if not isinstance(value, Mapping):
        refuse("device", ProblemCode.TYPE, "write one kind of device, such as {mig: 2g.35gb}")
        return DeviceRequest()
    for name in value:
        if name not in DEVICE_PARTS:
            refuse(f"device.{name!s:.64}", ProblemCode.UNKNOWN, "unknown field: remove it")
    kinds = [way for way in DEVICE_KINDS if way in value]
    mixed = GangShape(frozenset(_SLICE_KINDS[way] for way in kinds if way in _SLICE_KINDS))
    for row in matching(mixed, CombinationVerdict.REFUSE):
        code, why = ProblemCode.COMBINATION, row.sentence(mixed)
        refuse(row.field, code, why, combination=str(row.code))
        return DeviceRequest()
    if len(kinds) != 1:
        fields = " and ".join(kinds) or "none"
        sentence: Message | str = Message(
            "write exactly one of gpus, mig, mps and memory; the request has %(fields)s",
            fields=fields,
        )
        refuse("device", ProblemCode.COMBINATION, sentence)
        return DeviceRequest()
    models = _models(value.get("models", []), refuse)
    isolation = _isolation(value.get("isolation", _USUAL.get(kinds[0], Isolation.HARDWARE)), refuse)
    if kinds[0] == "mps" and isolation is Isolation.HARDWARE:
        sentence = "an MPS share has no hardware isolation: write isolation any, or request mig"
        refuse("device.isolation", ProblemCode.COMBINATION, sentence)
    amount = _amount(kinds[0], value, refuse)
    return DeviceRequest(models=models, isolation=isolation, **amount)


def _amount(way: str, device: Mapping[str, Any], refuse: Refuse) -> dict[str, Any]:
    value = device[way]
    match way:
        case "gpus":
            return {"gpus": _gpus(value, refuse)}
        case "mig":
            return {"mig": _profile(value, refuse)}
        case "mps":
            return _mps(device, refuse)
    meant = probably_meant(FieldKind.SIZE, value)
    suggestion = {"device": {**device, "memory": meant}} if meant else None
    return {"memory_mib": _memory("device.memory", value, refuse, suggestion)}


def _gpus(value: Any, refuse: Refuse) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= MAX_GPUS:
        refuse(
            "device.gpus",
            ProblemCode.RANGE,
            Message("write a whole number from %(least)s to %(most)s", least=1, most=MAX_GPUS),
        )
        return 1
    return value


def _profile(value: Any, refuse: Refuse) -> str:
    value = without_blanks(value)
    if not isinstance(value, str) or not PROFILE.fullmatch(value):
        refuse("device.mig", ProblemCode.VALUE, "write a MIG profile, such as 2g.35gb")
        return ""
    return value


def _mps(device: Mapping[str, Any], refuse: Refuse) -> dict[str, int]:
    value = device["mps"]
    if not isinstance(value, Mapping) or set(value) != {"threads", "memory"}:
        refuse("device.mps", ProblemCode.TYPE, "write mps as {threads: 25, memory: 20GiB}")
        return {}
    threads = value["threads"]
    if not isinstance(threads, int) or isinstance(threads, bool) or not 1 <= threads <= 100:
        refuse("device.mps.threads", ProblemCode.RANGE, "write a percentage from 1 to 100")
        threads = 1
    meant = probably_meant(FieldKind.SIZE, value["memory"])
    suggestion = {"device": {**device, "mps": {**value, "memory": meant}}} if meant else None
    memory = _memory("device.mps.memory", value["memory"], refuse, suggestion)
    return {"mps_threads": threads, "mps_memory_mib": memory}


def _memory(path: str, value: Any, refuse: Refuse, suggestion: Mapping[str, Any] | None) -> int:
    try:
        return read_memory_mib(value)
    except ValueError as error:
        refuse(path, ProblemCode.VALUE, error.args[0], suggestion)
        return 1


def _models(value: Any, refuse: Refuse) -> tuple[str, ...]:
    is_list = isinstance(value, list) and len(value) <= 32
    if not is_list or not all(isinstance(m, str) and MODEL.fullmatch(m) for m in value):
        refuse("device.models", ProblemCode.VALUE, "write a list of models, such as [H200, H100]")
        return ()
    return tuple(value)


def _isolation(value: Any, refuse: Refuse) -> Isolation:
    try:
        return Isolation(value)
    except ValueError:
        refuse(
            "device.isolation",
            ProblemCode.VALUE,
            Message("write one of %(words)s", words=", ".join(Isolation)),
        )
        return Isolation.HARDWARE
