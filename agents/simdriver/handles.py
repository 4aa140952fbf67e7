"""Opaque handles: numbers that the adapter writes into a caller's pointer, and reads back."""

import contextlib
import ctypes
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from agents.simdriver.codes import Code, DriverError
from agents.simdriver.state import ComputeInstance, GpuInstance, SimulatedGpu, SimulatedNode


@dataclass(frozen=True, slots=True)
class Ref:
    """What a handle stands for. A compute instance is named by its UUID: a new one with the same id
    is another thing, and the old handle is stale."""

    gpu: str
    gpu_instance: int | None = None
    compute_instance: int | None = None
    uuid: str = ""


class Handles:
    """Numbers for things, stable within one process."""

    def __init__(self) -> None:
        self._by_number: dict[int, Ref] = {}
        self._numbers: dict[Ref, int] = {}
        self._vanishing: list[Ref] = []

    @contextlib.contextmanager
    def vanishing(self, instance: Ref) -> Iterator[None]:
        """While a GPU instance is being destroyed, it is still listed, but its handles, and those
        of its compute instances, are not valid any more in this process."""
        self._vanishing.append(instance)
        try:
            yield
        finally:
            self._vanishing.remove(instance)

    def give(self, target: Any, ref: Ref) -> None:
        """Write the handle of `ref` into the pointer behind `byref(...)`."""
        slot = ctypes.cast(ctypes.pointer(target._obj), ctypes.POINTER(ctypes.c_void_p))
        slot[0] = self._number(ref)

    def pointer(self, kind: Any, ref: Ref) -> Any:
        """The handle of `ref` as an opaque pointer of the caller's type."""
        return ctypes.cast(ctypes.c_void_p(self._number(ref)), kind)

    def _number(self, ref: Ref) -> int:
        number = self._numbers.setdefault(ref, 0x1000 + 16 * len(self._numbers))
        self._by_number[number] = ref
        return number

    def ref(self, handle: Any) -> Ref:
        # Reads the pointer's own value, three times as fast as a cast.
        number = ctypes.c_void_p.from_buffer(handle).value if handle is not None else None
        found = self._by_number.get(number or 0)
        if found is None or self._is_vanishing(found):
            raise DriverError(Code.INVALID_ARGUMENT)
        return found

    def _is_vanishing(self, ref: Ref) -> bool:
        return bool(self._vanishing) and Ref(ref.gpu, ref.gpu_instance) in self._vanishing


def gpu_of(node: SimulatedNode, ref: Ref) -> SimulatedGpu:
    """The GPU behind a handle; a lost one answers nothing any more."""
    gpu = next((g for g in node.gpus if g.uuid == ref.gpu), None)
    if gpu is None:
        raise DriverError(Code.INVALID_ARGUMENT)
    if gpu.lost:
        raise DriverError(Code.GPU_IS_LOST)
    return gpu


def instance_of(node: SimulatedNode, ref: Ref) -> tuple[SimulatedGpu, GpuInstance]:
    gpu = gpu_of(node, ref)
    instance = gpu.instance(ref.gpu_instance) if ref.gpu_instance is not None else None
    if instance is None:
        raise DriverError(Code.INVALID_ARGUMENT)
    return gpu, instance


def compute_of(node: SimulatedNode, ref: Ref) -> tuple[SimulatedGpu, GpuInstance, ComputeInstance]:
    gpu, instance = instance_of(node, ref)
    for compute in instance.compute:
        if compute.uuid == ref.uuid:
            return gpu, instance, compute
    raise DriverError(Code.INVALID_ARGUMENT)


def items(array: Any) -> Any:
    """The caller's array, whether passed itself or by reference."""
    return getattr(array, "_obj", array)


def put(library: Any, array: Any, index: int, ref: Ref) -> None:
    """The handle of `ref` into the caller's array."""
    slots = items(array)
    slots[index] = library.handles.pointer(type(slots[index]), ref)


def put_field(library: Any, struct: Any, name: str, ref: Ref) -> None:
    """The handle of `ref` into a field of the caller's struct."""
    kind = dict(struct._fields_)[name]
    setattr(struct, name, library.handles.pointer(kind, ref))
