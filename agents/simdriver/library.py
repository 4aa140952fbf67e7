"""The object that is set as `pynvml.nvmlLib`: attributes named as the C symbols, ctypes in and out.

A symbol that is not here raises AttributeError, which pynvml reports as FUNCTION_NOT_FOUND, just as
for a driver that is too old.
"""

import time
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any

from agents.simdriver.administration import ADMINISTRATION_SYMBOLS
from agents.simdriver.codes import MESSAGES, Code, DriverError
from agents.simdriver.compute import COMPUTE_SYMBOLS
from agents.simdriver.devices import DEVICE_SYMBOLS
from agents.simdriver.events import EVENT_SYMBOLS, SimulatedEventSet
from agents.simdriver.faults import call_kinds, call_seconds, take_failure
from agents.simdriver.gpm import GPM_SYMBOLS, GpmSample
from agents.simdriver.handles import Handles, Ref
from agents.simdriver.health import HEALTH_SYMBOLS
from agents.simdriver.links import LINK_SYMBOLS
from agents.simdriver.mig import MIG_SYMBOLS
from agents.simdriver.state import CUDA_VERSION, DRIVER_VERSION, NVML_VERSION, SimulatedNode
from agents.simdriver.store import Store
from agents.simdriver.telemetry import TELEMETRY_SYMBOLS
from agents.simdriver.utilisation import Meters


class Library:
    """One process's view of the simulated driver; the node itself is on disk."""

    def __init__(self, path: Path) -> None:
        self.store = Store(path)
        self.handles = Handles()
        self.sessions = 0
        self.event_sets: dict[Ref, SimulatedEventSet] = {}
        self.event_set_count = 0
        self.meters = Meters()
        self.gpm_samples: dict[Ref, GpmSample] = {}
        for name, function in symbols().items():
            setattr(self, name, self._symbol(name, function))

    def sleep(self, seconds: float) -> None:
        """Simulates latency, outside the state's lock because other GPUs keep working."""
        if seconds:
            time.sleep(seconds)

    def _symbol(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        """A plain function, because pynvml sets attributes such as restype on it."""
        if name == "nvmlErrorString":
            return lambda code: MESSAGES.get(code, MESSAGES[Code.UNKNOWN]).encode()

        names = (name, *call_kinds(name))
        # A reading call runs before its failure is checked: it has just read the state file.
        asks = "Get" in name and name not in SYSTEM_SYMBOLS

        @wraps(function)
        def symbol(*arguments: Any) -> int:
            if not self.sessions and name != "nvmlInitWithFlags":
                return Code.UNINITIALIZED
            try:
                if not asks and (failure := self._hindered(self._now(), names)):
                    return failure
                code = int(function(self, *arguments) or Code.SUCCESS)
            except DriverError as refused:
                code = int(refused.code)
            if asks:
                node = self.store.cached_node()
                if node.slow or node.fail_next:
                    return self._hindered(node, names) or code
            return code

        return symbol

    def _now(self) -> SimulatedNode | None:
        """None if the file is gone: opening and closing a session need no node."""
        try:
            return self.store.node()
        except OSError:
            return None

    def _hindered(self, node: SimulatedNode | None, names: tuple[str, ...]) -> int:
        """Waits as long as a slowed call takes. Returns the code of an injected failure, else 0."""
        if node is None or not (node.slow or node.fail_next):
            return Code.SUCCESS
        self.sleep(call_seconds(node, names))
        if all(fail.call != names[0] for fail in node.fail_next):
            return Code.SUCCESS
        with self.store.change() as changed:
            return take_failure(changed, names[0])


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


def _process_name(library: Library, pid: Any, buffer: Any, size: Any) -> None:
    """Of a process that runs on this machine; those of an injected holder have no name."""
    try:
        words = Path("/proc", str(pid.value), "cmdline").read_bytes()
    except OSError:
        raise DriverError(Code.NOT_FOUND) from None
    buffer.value = words.split(b"\0")[0][: size.value - 1]


SYSTEM_SYMBOLS: dict[str, Callable[..., Any]] = {
    "nvmlInitWithFlags": _init,
    "nvmlShutdown": _shutdown,
    "nvmlErrorString": _error_string,
    "nvmlSystemGetDriverVersion": _driver_version,
    "nvmlSystemGetNVMLVersion": _nvml_version,
    "nvmlSystemGetCudaDriverVersion": _cuda_version,
    "nvmlSystemGetCudaDriverVersion_v2": _cuda_version,
    "nvmlSystemGetProcessName": _process_name,
}


def symbols() -> dict[str, Callable[..., Any]]:
    """Every call of the driver by its C symbol."""
    return {
        **SYSTEM_SYMBOLS,
        **DEVICE_SYMBOLS,
        **ADMINISTRATION_SYMBOLS,
        **LINK_SYMBOLS,
        **MIG_SYMBOLS,
        **COMPUTE_SYMBOLS,
        **HEALTH_SYMBOLS,
        **EVENT_SYMBOLS,
        **TELEMETRY_SYMBOLS,
        **GPM_SYMBOLS,
    }
