"""Reads the device of a request: exactly one way of asking, and what narrows it."""

import re
from collections.abc import Callable, Mapping
from typing import Any

from agents.contract.phrase import Phrase
from scheduler.core.model.snapshot import DeviceRequest, Isolation
from scheduler.core.request.quantities import read_memory_mib
from scheduler.core.request.values import Problem

Refuse = Callable[[str, Problem, str], None]

WAYS = ("gpus", "mig", "mps", "memory")
PROFILE = re.compile(r"[1-9]g\.[0-9]{1,3}gb(?:[+-][a-z.]{1,8})?")
MODEL = re.compile(r"[A-Za-z0-9][A-Za-z0-9 ._-]{0,63}")
MAX_GPUS = 1_024
# Who asks for a share by name takes what it is.
_USUAL = {"mps": Isolation.ANY}


def read_device(value: Any, refuse: Refuse) -> DeviceRequest:
    """The device asked for; problems go to `refuse`, and an empty request comes back."""
    if not isinstance(value, Mapping):
        refuse("device", Problem.TYPE, "write one way of asking, such as {mig: 2g.35gb}")
        return DeviceRequest()
    for name in value:
        if name not in (*WAYS, "models", "isolation"):
            refuse(f"device.{name!s:.64}", Problem.UNKNOWN, "no such field: leave it out")
    ways = [way for way in WAYS if way in value]
    if len(ways) != 1:
        told = " and ".join(ways) or "none"
        sentence: str = Phrase(
            "write exactly one of gpus, mig, mps or memory; here: %(told)s", told=told
        )
        refuse("device", Problem.COMBINATION, sentence)
        return DeviceRequest()
    models = _models(value.get("models", []), refuse)
    isolation = _isolation(value.get("isolation", _USUAL.get(ways[0], Isolation.HARDWARE)), refuse)
    if ways[0] == "mps" and isolation is Isolation.HARDWARE:
        sentence = "an MPS share has no hardware isolation: write isolation any, or ask for mig"
        refuse("device.isolation", Problem.COMBINATION, sentence)
    amount = _amount(ways[0], value[ways[0]], refuse)
    return DeviceRequest(models=models, isolation=isolation, **amount)


def _amount(way: str, value: Any, refuse: Refuse) -> dict[str, Any]:
    match way:
        case "gpus":
            return {"gpus": _gpus(value, refuse)}
        case "mig":
            return {"mig": _profile(value, refuse)}
        case "mps":
            return _mps(value, refuse)
        case _:
            return {"memory_mib": _memory("device.memory", value, refuse)}


def _gpus(value: Any, refuse: Refuse) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= MAX_GPUS:
        refuse(
            "device.gpus",
            Problem.RANGE,
            Phrase("write a whole number from %(least)s to %(most)s", least=1, most=MAX_GPUS),
        )
        return 1
    return value


def _profile(value: Any, refuse: Refuse) -> str:
    if not isinstance(value, str) or not PROFILE.fullmatch(value):
        refuse("device.mig", Problem.VALUE, "write a MIG profile, such as 2g.35gb")
        return ""
    return value


def _mps(value: Any, refuse: Refuse) -> dict[str, int]:
    if not isinstance(value, Mapping) or set(value) != {"threads", "memory"}:
        refuse("device.mps", Problem.TYPE, "write mps as {threads: 25, memory: 20GiB}")
        return {}
    threads = value["threads"]
    if not isinstance(threads, int) or isinstance(threads, bool) or not 1 <= threads <= 100:
        refuse("device.mps.threads", Problem.RANGE, "write a percentage from 1 to 100")
        threads = 1
    memory = _memory("device.mps.memory", value["memory"], refuse)
    return {"mps_threads": threads, "mps_memory_mib": memory}


def _memory(path: str, value: Any, refuse: Refuse) -> int:
    try:
        return read_memory_mib(value)
    except ValueError as wrong:
        refuse(path, Problem.VALUE, wrong.args[0])
        return 1


def _models(value: Any, refuse: Refuse) -> tuple[str, ...]:
    is_list = isinstance(value, list) and len(value) <= 32
    if not is_list or not all(isinstance(m, str) and MODEL.fullmatch(m) for m in value):
        refuse("device.models", Problem.VALUE, "write a list of models, such as [H200, H100]")
        return ()
    return tuple(value)


def _isolation(value: Any, refuse: Refuse) -> Isolation:
    try:
        return Isolation(value)
    except ValueError:
        refuse(
            "device.isolation",
            Problem.VALUE,
            Phrase("write one of %(words)s", words=", ".join(Isolation)),
        )
        return Isolation.HARDWARE
