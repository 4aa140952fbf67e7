"""The object that is set as `pynvml.nvmlLib`: attributes named as the C symbols, ctypes in and out.

A symbol that is not here raises AttributeError, which pynvml reports as FUNCTION_NOT_FOUND, just as
for a driver that is too old.
"""

import time
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any

from agents.simdriver.codes import WORDS, Code, DriverError
from agents.simdriver.devices import DEVICE_SYMBOLS
from agents.simdriver.handles import Handles
from agents.simdriver.links import LINK_SYMBOLS
from agents.simdriver.mig import MIG_SYMBOLS
from agents.simdriver.state import CUDA_VERSION, DRIVER_VERSION, NVML_VERSION
from agents.simdriver.store import Store


class Library:
    """One process's view of the simulated driver; the node itself is on disk."""

    def __init__(self, path: Path) -> None:
        self.store = Store(path)
        self.handles = Handles()
        self.sessions = 0
        symbols = {**SYSTEM_SYMBOLS, **DEVICE_SYMBOLS, **LINK_SYMBOLS, **MIG_SYMBOLS}
        for name, function in symbols.items():
            setattr(self, name, self._symbol(name, function))

    def sleep(self, seconds: float) -> None:
        """What the hardware takes. Outside the state's lock, as other GPUs go on meanwhile."""
        if seconds:
            time.sleep(seconds)

    def _symbol(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        """A plain function, because pynvml sets attributes such as restype on it."""
        if name == "nvmlErrorString":
            return lambda code: WORDS.get(code, WORDS[Code.UNKNOWN]).encode()

        @wraps(function)
        def symbol(*arguments: Any) -> int:
            if not self.sessions and name != "nvmlInitWithFlags":
                return Code.UNINITIALIZED
            try:
                return int(function(self, *arguments) or Code.SUCCESS)
            except DriverError as refused:
                return int(refused.code)

        return symbol


def _init(library: Library, flags: Any) -> None:
    library.sessions += 1


def _shutdown(library: Library) -> None:
    library.sessions -= 1


def _error_string(library: Library, code: int) -> None:
    """Answered in `_symbol`: it returns text, and works without a session."""


def _driver_version(library: Library, buffer: Any, size: Any) -> None:
    buffer.value = DRIVER_VERSION.encode()


def _nvml_version(library: Library, buffer: Any, size: Any) -> None:
    buffer.value = NVML_VERSION.encode()


def _cuda_version(library: Library, out: Any) -> None:
    out._obj.value = CUDA_VERSION


SYSTEM_SYMBOLS: dict[str, Callable[..., Any]] = {
    "nvmlInitWithFlags": _init,
    "nvmlShutdown": _shutdown,
    "nvmlErrorString": _error_string,
    "nvmlSystemGetDriverVersion": _driver_version,
    "nvmlSystemGetNVMLVersion": _nvml_version,
    "nvmlSystemGetCudaDriverVersion": _cuda_version,
    "nvmlSystemGetCudaDriverVersion_v2": _cuda_version,
}
