"""C symbols for administrators: serial, brand, ECC, modes, power limit.

Not verified on hardware: the range of power limits (a third of the board's up to all of it here),
and the brand of each board.
"""

from collections.abc import Callable
from typing import Any

from agents.simdriver import utilisation as load
from agents.simdriver.codes import Code, DriverError
from agents.simdriver.driver import require_root
from agents.simdriver.handles import gpu_of
from agents.simdriver.health import physical_gpu
from agents.simdriver.state import SimulatedGpu, SimulatedNode

BRANDS = {"turing": 2}
BRAND_NVIDIA = 14
SERIAL_DIGITS = 13
# nvmlComputeMode_t; 1, exclusive by thread, is no longer supported.
DEFAULT_MODE, NO_LONGER, COMPUTE_MODES = 0, 1, (0, 2, 3)
ECC_EVENTS = 0x1 | 0x2
BARE_METAL = 0


def _serial(library: Any, handle: Any, buffer: Any, size: Any) -> None:
    number = int(physical_gpu(library, handle).uuid.removeprefix("GPU-").replace("-", ""), 16)
    buffer.value = f"{number % 10**SERIAL_DIGITS:0{SERIAL_DIGITS}}".encode()


def _brand(library: Any, handle: Any, out: Any) -> None:
    out._obj.value = BRANDS.get(physical_gpu(library, handle).kind.architecture, BRAND_NVIDIA)


def _virtualization(library: Any, handle: Any, out: Any) -> None:
    physical_gpu(library, handle)
    out._obj.value = BARE_METAL


def _ecc_mode(library: Any, handle: Any, current: Any, pending: Any) -> None:
    if not physical_gpu(library, handle).event_types & ECC_EVENTS:
        raise DriverError(Code.NOT_SUPPORTED)
    current._obj.value = pending._obj.value = 1


def _persistence(library: Any, handle: Any, out: Any) -> None:
    out._obj.value = int(physical_gpu(library, handle).persistence)


def _compute_mode(library: Any, handle: Any, out: Any) -> None:
    """nvml.h: always the default in MIG mode; MIG devices report it too."""
    gpu = gpu_of(library.store.node(), library.handles.ref(handle))
    out._obj.value = DEFAULT_MODE if gpu.mig_current else gpu.compute_mode


def _set(library: Any, handle: Any, change: Callable[[SimulatedGpu], None]) -> None:
    """As root, on a whole GPU."""
    physical_gpu(library, handle)
    ref = library.handles.ref(handle)
    with library.store.change() as node:
        gpu = _as_root(node, ref)
        change(gpu)


def _as_root(node: SimulatedNode, ref: Any) -> SimulatedGpu:
    require_root(node)
    return gpu_of(node, ref)


def _set_persistence(library: Any, handle: Any, mode: Any) -> None:
    if mode.value not in (0, 1):
        raise DriverError(Code.INVALID_ARGUMENT)

    def change(gpu: SimulatedGpu) -> None:
        gpu.persistence = bool(mode.value)

    _set(library, handle, change)


def _set_compute_mode(library: Any, handle: Any, mode: Any) -> None:
    if mode.value not in COMPUTE_MODES:
        raise DriverError(Code.NOT_SUPPORTED if mode.value == NO_LONGER else Code.INVALID_ARGUMENT)

    def change(gpu: SimulatedGpu) -> None:
        if gpu.mig_current:
            raise DriverError(Code.NOT_SUPPORTED)
        gpu.compute_mode = mode.value

    _set(library, handle, change)


def _limits(gpu: SimulatedGpu) -> tuple[int, int]:
    """Lowest and highest power limit in mW."""
    highest = load.board_figures(gpu).watts * 1_000
    return highest // 3, highest


def _power_limits(library: Any, handle: Any, lowest: Any, highest: Any) -> None:
    lowest._obj.value, highest._obj.value = _limits(physical_gpu(library, handle))


def _default_power_limit(library: Any, handle: Any, out: Any) -> None:
    out._obj.value = _limits(physical_gpu(library, handle))[1]


def _power_limit(library: Any, handle: Any, out: Any) -> None:
    gpu = physical_gpu(library, handle)
    out._obj.value = gpu.power_limit_mw or _limits(gpu)[1]


def _set_power_limit(library: Any, handle: Any, limit: Any) -> None:
    def change(gpu: SimulatedGpu) -> None:
        lowest, highest = _limits(gpu)
        if not lowest <= limit.value <= highest:
            raise DriverError(Code.INVALID_ARGUMENT)
        gpu.power_limit_mw = limit.value

    _set(library, handle, change)


ADMINISTRATION_SYMBOLS: dict[str, Callable[..., Any]] = {
    "nvmlDeviceGetSerial": _serial,
    "nvmlDeviceGetBrand": _brand,
    "nvmlDeviceGetVirtualizationMode": _virtualization,
    "nvmlDeviceGetEccMode": _ecc_mode,
    "nvmlDeviceGetPersistenceMode": _persistence,
    "nvmlDeviceSetPersistenceMode": _set_persistence,
    "nvmlDeviceGetComputeMode": _compute_mode,
    "nvmlDeviceSetComputeMode": _set_compute_mode,
    "nvmlDeviceGetPowerManagementLimitConstraints": _power_limits,
    "nvmlDeviceGetPowerManagementDefaultLimit": _default_power_limit,
    "nvmlDeviceGetPowerManagementLimit": _power_limit,
    "nvmlDeviceSetPowerManagementLimit": _set_power_limit,
}
