"""A session with the driver: reads GPUs and MIG instances, and changes MIG instances and modes."""

import contextlib
import threading
from collections.abc import Iterator
from ctypes import byref, c_uint

import pynvml

from agents.facts.gpus import DriverVersions, GpuFacts, InstanceFacts
from agents.nvml.errors import NvmlCode, NvmlFailure, code_of, nvml_errors
from agents.nvml.gate import CALLS
from agents.nvml.known_gpus import KnownGpu, KnownGpus
from agents.nvml.profile_constants import (
    ComputeProfile,
    InstanceProfile,
    full_width_profile,
    read_compute_profiles,
    read_instance_profiles,
)

MIB = 1 << 20
# How often a GPU is read if another tool changes its instances meanwhile.
READS = 3
# What a handle answers whose instance is gone.
VANISHED = (NvmlCode.INVALID_ARGUMENT, NvmlCode.NO_SUCH_DEVICE)


class Nvml:
    """A session with the driver. Thread-safe: NVML is, and each GPU has a lock.

    The lock is held during a change and during a listing of the GPU's instances, so these are never
    read in the middle of a change."""

    def __init__(self) -> None:
        self.known_gpus = KnownGpus()
        self._is_open = False
        self._opening = threading.Lock()
        self._count = 0
        self._open()

    def close(self) -> None:
        with nvml_errors("NVML does not stop"):
            self._is_open = False
            self.known_gpus.forget_all()
            pynvml.nvmlShutdown()

    @contextlib.contextmanager
    def closed(self) -> Iterator[None]:
        """During the block this session has no handle, and no thread of this process calls NVML.

        Sessions of others, such as the sensors', must be closed before. Raises GateBusy."""
        with CALLS.closed():
            self.close()
            try:
                yield
            finally:
                # If it does not start now, `devices` tries again.
                with contextlib.suppress(NvmlFailure):
                    self._open()

    @contextlib.contextmanager
    def reading(self) -> Iterator[frozenset[str] | None]:
        """Keeps every GPU from being changed during the block, except those that are being changed
        already: these are named. None while the library is closed. Never waits."""
        with contextlib.ExitStack() as stack:
            if not stack.enter_context(CALLS.entered_if_open()):
                yield None
                return
            changing = set()
            for uuid in self.known_gpus.uuids():
                lock = self.known_gpus.lock(uuid)
                if lock.acquire(blocking=False):
                    stack.callback(lock.release)
                else:
                    changing.add(uuid)
            yield frozenset(changing)

    def versions(self) -> DriverVersions:
        with nvml_errors("versions"):
            cuda = pynvml.nvmlSystemGetCudaDriverVersion_v2()
            return DriverVersions(
                driver=as_text(pynvml.nvmlSystemGetDriverVersion()),
                nvml=as_text(pynvml.nvmlSystemGetNVMLVersion()),
                cuda=f"{cuda // 1000}.{cuda % 1000 // 10}",
            )

    def devices(self) -> list[GpuFacts]:
        """All GPUs, by index. One that falls off the bus while it is read is left out; one that is
        being changed is as it was before."""
        self._open()
        with nvml_errors("count of GPUs"):
            count = pynvml.nvmlDeviceGetCount()
        if count != self._count:
            self.known_gpus.forget_all()
            self._count = count
        found = []
        for index in range(count):
            with contextlib.suppress(NvmlFailure):
                found.append(self._device(index))
        return found

    def device(self, gpu_uuid: str) -> GpuFacts:
        """One GPU that `devices` found before. Raises NvmlFailure."""
        known = self.known_gpus.find(gpu_uuid)
        if known is None or known.facts is None:
            by_uuid = {gpu.uuid: gpu for gpu in self.devices()}
            if gpu_uuid not in by_uuid:
                raise NvmlFailure(NvmlCode.NO_SUCH_DEVICE, f"{gpu_uuid} is not there")
            return by_uuid[gpu_uuid]
        return self._device(known.facts.index)

    def instances(self, gpu_uuid: str) -> list[InstanceFacts]:
        """The GPU's instances, in order of start; empty while MIG is off. Waits for a change of
        this GPU. Raises NvmlFailure.

        They are read as GPU instances, not as MIG devices: a GPU instance without a compute
        instance is no MIG device, but occupies its memory slices."""
        with self.known_gpus.lock(gpu_uuid):
            return self._instances(gpu_uuid, must_ask_mode=True)

    def instances_unless_changing(self, gpu_uuid: str) -> list[InstanceFacts] | None:
        """Of a GPU in MIG mode as `instances`, but None while another thread changes it."""
        lock = self.known_gpus.lock(gpu_uuid)
        if not lock.acquire(blocking=False):
            return None
        try:
            return self._instances(gpu_uuid, must_ask_mode=False)
        finally:
            lock.release()

    def create_instance(
        self, gpu_uuid: str, profile_id: int, start: int, size: int
    ) -> InstanceFacts:
        """Create a GPU instance at exactly this place, with one compute instance over all of it.

        If the compute instance fails, the GPU instance is destroyed again.
        """
        place = pynvml.c_nvmlGpuInstancePlacement_t(start, size)
        action = f"making profile {profile_id} at {start} of {gpu_uuid}"
        with self._changing(gpu_uuid, action) as gpu:
            made = pynvml.nvmlDeviceCreateGpuInstanceWithPlacement(
                gpu.handle, profile_id, byref(place)
            )
            profile = next(p for p in _profiles(gpu) if p.id == profile_id)
            try:
                _create_compute_instance(gpu, profile, made)
            except pynvml.NVMLError:
                pynvml.nvmlGpuInstanceDestroy(made)
                raise
            return _instance(gpu_uuid, gpu, profile, made)

    def complete_instance(self, gpu_uuid: str, instance_id: int) -> None:
        """Add the missing compute instance to a GPU instance."""
        with self._changing(gpu_uuid, f"completing instance {instance_id} of {gpu_uuid}") as gpu:
            instance = pynvml.nvmlDeviceGetGpuInstanceById(gpu.handle, instance_id)
            profile_id = pynvml.nvmlGpuInstanceGetInfo(instance).profileId
            profile = next(p for p in _profiles(gpu) if p.id == profile_id)
            _create_compute_instance(gpu, profile, instance)

    def destroy_instance(
        self, gpu_uuid: str, instance_id: int, place: tuple[int, int] | None = None
    ) -> None:
        """Destroy its compute instances, then the GPU instance. Raises NvmlFailure, with IN_USE
        while a program has it open.

        `place`: its start and size. At another place it is another instance by now, made by another
        tool, and is not touched."""
        with self._changing(gpu_uuid, f"deleting instance {instance_id} of {gpu_uuid}") as gpu:
            instance = pynvml.nvmlDeviceGetGpuInstanceById(gpu.handle, instance_id)
            info = pynvml.nvmlGpuInstanceGetInfo(instance)
            if place is not None and (info.placement.start, info.placement.size) != place:
                raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_FOUND)
            for compute in _compute_instances(gpu, info.profileId, instance):
                pynvml.nvmlComputeInstanceDestroy(compute)
            pynvml.nvmlGpuInstanceDestroy(instance)

    def set_mig_mode(self, gpu_uuid: str, *, on: bool) -> None:
        """Turn MIG on or off. Raises NvmlFailure unless the mode is current afterwards.

        The call itself succeeds even if nothing changed, so its status and the mode are checked.
        """
        with self._changing(gpu_uuid, f"MIG mode of {gpu_uuid}") as gpu:
            status = pynvml.nvmlDeviceSetMigMode(gpu.handle, int(on))
            # Handles, minor numbers and profiles may have changed.
            self.known_gpus.forget(gpu_uuid)
            current, pending = _mig_mode(self.known_gpus.handle(gpu_uuid))
            self.known_gpus.forget(gpu_uuid)
        if current is on:
            return
        code = code_of(status)
        if status == pynvml.NVML_SUCCESS and pending is on:
            code = NvmlCode.RESET_REQUIRED
        raise NvmlFailure(code, f"MIG of {gpu_uuid} is not {'on' if on else 'off'} yet: {code}")

    def _open(self) -> None:
        """Does nothing while it is open: NVML counts, and would stay open at the next `close`."""
        with nvml_errors("NVML does not start"), self._opening:
            if not self._is_open:
                pynvml.nvmlInit()
                self._is_open = True

    @contextlib.contextmanager
    def _changing(self, gpu_uuid: str, action: str) -> Iterator[KnownGpu]:
        """After a failure nothing that is known of the GPU is believed any more."""
        with self.known_gpus.lock(gpu_uuid):
            try:
                with nvml_errors(action):
                    yield self.known_gpus.gpu(gpu_uuid)
            except NvmlFailure:
                self.known_gpus.forget(gpu_uuid)
                raise

    def _device(self, index: int) -> GpuFacts:
        known = self.known_gpus.at(index)
        if known is None or known.facts is None:
            return self._device_anew(index)
        lock = self.known_gpus.lock(known.facts.uuid)
        if not lock.acquire(blocking=False):
            return known.facts
        try:
            with nvml_errors(f"GPU {index}"):
                mode = _mig_mode(known.handle)
        except NvmlFailure:
            self.known_gpus.forget(known.facts.uuid)
            return self._device_anew(index)
        finally:
            lock.release()
        if mode != (known.facts.mig_current, known.facts.mig_pending):
            self.known_gpus.forget(known.facts.uuid)
            return self._device_anew(index)
        return known.facts

    def _device_anew(self, index: int) -> GpuFacts:
        with nvml_errors(f"GPU {index}"):
            gpu = pynvml.nvmlDeviceGetHandleByIndex(index)
            current, pending = _mig_mode(gpu)
            facts = GpuFacts(
                index=index,
                uuid=as_text(pynvml.nvmlDeviceGetUUID(gpu)),
                product_name=as_text(pynvml.nvmlDeviceGetName(gpu)),
                memory_mib=pynvml.nvmlDeviceGetMemoryInfo(gpu).total // MIB,
                pci_bus_id=as_text(pynvml.nvmlDeviceGetPciInfo(gpu).busId),
                numa_node=_numa_node(gpu),
                mig_current=current,
                mig_pending=pending,
            )
        self.known_gpus.keep(facts, gpu)
        return facts

    def _instances(self, gpu_uuid: str, *, must_ask_mode: bool) -> list[InstanceFacts]:
        """If a handle vanishes meanwhile, another tool changes the GPU, and all is read again."""
        for reads_left in reversed(range(READS)):
            try:
                with nvml_errors(f"MIG instances of {gpu_uuid}"):
                    gpu = self.known_gpus.gpu(gpu_uuid)
                    if must_ask_mode and not _mig_mode(gpu.handle)[0]:
                        return []
                    return _read_instances(gpu_uuid, gpu)
            except NvmlFailure as failure:
                self.known_gpus.forget(gpu_uuid)
                if failure.code not in VANISHED or not reads_left:
                    raise
        raise AssertionError("the last read returns or raises")


def _read_instances(gpu_uuid: str, gpu: KnownGpu) -> list[InstanceFacts]:
    profiles = _profiles(gpu)
    if not profiles:
        raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED)
    found = [
        _instance(gpu_uuid, gpu, profile, handle)
        for profile in profiles
        for handle in _gpu_instances(gpu, profile)
    ]
    return sorted(found, key=lambda i: i.start)


def _profiles(gpu: KnownGpu) -> tuple[InstanceProfile, ...]:
    if not gpu.profiles:
        gpu.profiles = tuple(read_instance_profiles(gpu.handle))
    return gpu.profiles


def _compute_profiles(
    gpu: KnownGpu, profile_id: int, instance: object
) -> tuple[ComputeProfile, ...]:
    """Those of every GPU instance with this profile."""
    if not gpu.compute_profiles.get(profile_id):
        gpu.compute_profiles[profile_id] = tuple(read_compute_profiles(instance))
    return gpu.compute_profiles[profile_id]


def _gpu_instances(gpu: KnownGpu, profile: InstanceProfile) -> list[object]:
    array = (pynvml.c_nvmlGpuInstance_t * profile.max_instances)()
    count = c_uint()
    pynvml.nvmlDeviceGetGpuInstances(gpu.handle, profile.id, array, byref(count))
    return list(array)[: count.value]


def _compute_instances(gpu: KnownGpu, profile_id: int, instance: object) -> list[object]:
    found: list[object] = []
    for profile in _compute_profiles(gpu, profile_id, instance):
        array = (pynvml.c_nvmlComputeInstance_t * profile.max_instances)()
        count = c_uint()
        pynvml.nvmlGpuInstanceGetComputeInstances(instance, profile.id, array, byref(count))
        found += list(array)[: count.value]
    return found


def _create_compute_instance(gpu: KnownGpu, profile: InstanceProfile, instance: object) -> None:
    """Over the whole GPU instance. Raises pynvml.NVMLError."""
    full = full_width_profile(profile, _compute_profiles(gpu, profile.id, instance))
    if full is None:
        raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED)
    pynvml.nvmlGpuInstanceCreateComputeInstance(instance, full.id)


def _instance(
    gpu_uuid: str, gpu: KnownGpu, profile: InstanceProfile, handle: object
) -> InstanceFacts:
    info = pynvml.nvmlGpuInstanceGetInfo(handle)
    computes = _compute_instances(gpu, profile.id, handle)
    uuid = ""
    if computes:
        device = pynvml.nvmlComputeInstanceGetInfo(computes[0]).device
        uuid = as_text(pynvml.nvmlDeviceGetUUID(device))
    place = info.placement
    return InstanceFacts(gpu_uuid, info.id, profile.id, profile.name, place.start, place.size, uuid)


def _mig_mode(gpu: object) -> tuple[bool | None, bool | None]:
    try:
        current, pending = pynvml.nvmlDeviceGetMigMode(gpu)
    except pynvml.NVMLError_NotSupported:
        return None, None
    return bool(current), bool(pending)


def _numa_node(gpu: object) -> int | None:
    """The nearest NUMA node of the host, among the first 64.

    Not `nvmlDeviceGetNumaNodeId`, which only answers for a GPU that is itself a node (nvml.h)."""
    try:
        (word,) = pynvml.nvmlDeviceGetMemoryAffinity(gpu, 1, pynvml.NVML_AFFINITY_SCOPE_NODE)
    except (pynvml.NVMLError_NotSupported, pynvml.NVMLError_FunctionNotFound):
        return None
    return (word & -word).bit_length() - 1 if word else None


def as_text(value: str | bytes) -> str:
    return value.decode() if isinstance(value, bytes) else value
