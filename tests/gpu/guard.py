"""Nothing in this suite may change a GPU. pynvml is closed before its first call.

What reads is on a list; whatever is not on it is refused, new functions of later drivers among
them. Three doors lead from pynvml to the driver, and each is watched: its functions, the look-up of
a C symbol by name, and the loaded library itself.
"""

import re
from collections.abc import Callable
from types import FunctionType
from typing import Any, NoReturn

import pynvml

# A sample of GPM is a buffer of this process; NVML takes nothing from the GPU to fill it.
READING = re.compile(
    r"^nvml(Init|InitWithFlags|Shutdown|ErrorString"
    r"|GpmQuery\w+|GpmSample(Alloc|Get|Free)|GpmMigSampleGet|GpmMetricsGet"
    r"|DeviceOnSameBoard|DeviceQueryDrainState"
    r"|(System|Device|GpuInstance|ComputeInstance|Unit)(Get|Is)[A-Z]\w*)$"
)
# A name that also says one of these is refused although it begins as one that reads.
CHANGING = re.compile(
    r"(Set|Create|Destroy|Reset|Clear|Activate|Update|Write|Remove|Modify|Freeze|Force)(?![a-z])"
)
ONLY_SOUND_ALIKE = {"nvmlSystemGetTopologyGpuSet"}
# Of the level `use`: a queue of this process, which sets nothing on the GPU.
EVENTS = frozenset(
    {
        "nvmlEventSetCreate",
        "nvmlEventSetFree",
        "nvmlEventSetWait",
        "nvmlEventSetWait_v2",
        "nvmlDeviceRegisterEvents",
    }
)
# Python alone: they bring structs and error classes into another form.
PURE = {"nvmlExceptionClass", "nvmlStructToFriendlyObject", "nvmlFriendlyObjectToStruct"}


class Forbidden(BaseException):
    """A call that could change the GPU. No `except Exception` swallows it."""


# Names of the calls that were tried and refused, in order.
refused: list[str] = []
# Names that pass beside those that read: none, or EVENTS.
_also: set[str] = set()


class ReadOnly:
    """The loaded library, as far as it reads. Attributes are the library's own functions."""

    def __init__(self, library: Any) -> None:
        self._library = library

    def __getattr__(self, name: str) -> Any:
        if not passes(name):
            _refuse(name)
        return getattr(self._library, name)

    def __getitem__(self, name: str) -> Any:
        return getattr(self, name)


def reads(name: str) -> bool:
    """Whether this function or C symbol is known to only read."""
    if name in ONLY_SOUND_ALIKE:
        return True
    return bool(READING.match(name)) and not CHANGING.search(name)


def passes(name: str) -> bool:
    """Whether the guard of this process lets it through to the driver."""
    return reads(name) or name in _also


def close(*, events: bool = False) -> None:
    """From now on pynvml of this process only reads. A second call changes nothing.

    `events`: it may also listen to the driver's events."""
    if is_closed():
        return
    _also.update(EVENTS if events else ())
    for name in changing():
        if name in _also:
            continue
        setattr(pynvml, name, _barred(name))
    pynvml._nvmlGetFunctionPointer = _watched(pynvml._nvmlGetFunctionPointer)
    pynvml._LoadNvmlLibrary = _wrapped(pynvml._LoadNvmlLibrary)


def is_closed() -> bool:
    return getattr(pynvml._nvmlGetFunctionPointer, "guarded", False)


def changing() -> list[str]:
    """Functions of this pynvml that are not known to only read."""
    functions = (n for n, f in vars(pynvml).items() if isinstance(f, FunctionType))
    return sorted(n for n in functions if n.startswith("nvml") and n not in PURE and not reads(n))


def _watched(look_up: Callable[[str], Any]) -> Callable[[str], Any]:
    def only_reading(name: str) -> Any:
        if not passes(name):
            _refuse(name)
        return look_up(name)

    only_reading.guarded = True  # type: ignore[attr-defined]
    return only_reading


def _wrapped(load: Callable[[], None]) -> Callable[[], None]:
    def load_to_read() -> None:
        load()
        if not isinstance(pynvml.nvmlLib, ReadOnly):
            pynvml.nvmlLib = ReadOnly(pynvml.nvmlLib)

    return load_to_read


def _barred(name: str) -> Callable[..., NoReturn]:
    def barred(*_arguments: Any, **_named: Any) -> NoReturn:
        _refuse(name)

    return barred


def _refuse(name: str) -> NoReturn:
    refused.append(name)
    raise Forbidden(f"{name} could change the GPU: this suite only reads")
