"""A session with the driver: reads GPUs and MIG instances, and changes MIG instances and modes."""

import contextlib
import threading
from collections.abc import Iterator
from ctypes import byref, c_uint

import pynvml

from agents.facts.gpus import DriverVersions, GpuFacts, InstanceFacts
from agents.nvml.errors import NvmlCode, NvmlFailure, code_of, nvml_errors

MIB = 1 << 20


class Nvml:
    """A session with the driver. Thread-safe: NVML is, and partition changes take a lock here."""

    def __init__(self) -> None:
        with nvml_errors("NVML does not start"):
            pynvml.nvmlInit()
        self._partitioning = threading.Lock()

    def close(self) -> None:
        with nvml_errors("NVML does not stop"):
            pynvml.nvmlShutdown()

    def versions(self) -> DriverVersions:
        with nvml_errors("versions"):
            cuda = pynvml.nvmlSystemGetCudaDriverVersion_v2()
            return DriverVersions(
                driver=as_text(pynvml.nvmlSystemGetDriverVersion()),
                nvml=as_text(pynvml.nvmlSystemGetNVMLVersion()),
                cuda=f"{cuda // 1000}.{cuda % 1000 // 10}",
            )

    def devices(self) -> list[GpuFacts]:
        """All GPUs, by index. One that falls off the bus while it is read is left out."""
        with nvml_errors("count of GPUs"):
            count = pynvml.nvmlDeviceGetCount()
        found = []
        for index in range(count):
            with contextlib.suppress(NvmlFailure):
                found.append(self._device(index))
        return found

    def instances(self, gpu_uuid: str) -> list[InstanceFacts]:
        """The GPU's instances, in order of start; empty while MIG is off.

        They are read as GPU instances, not as MIG devices: a GPU instance without a compute
        instance is no MIG device, but occupies its memory slices."""
        with nvml_errors(f"MIG instances of {gpu_uuid}"):
            gpu = pynvml.nvmlDeviceGetHandleByUUID(gpu_uuid)
            if not _mig_mode(gpu)[0]:
                return []
            found = [
                self._instance(gpu_uuid, profile, handle)
                for profile in self._profiles(gpu)
                for handle in self._gpu_instances(gpu, profile)
            ]
        return sorted(found, key=lambda i: i.start)

    def create_instance(
        self, gpu_uuid: str, profile_id: int, start: int, size: int
    ) -> InstanceFacts:
        """Create a GPU instance at exactly this place, with one compute instance over all of it.

        If the compute instance fails, the GPU instance is destroyed again.
        """
        place = pynvml.c_nvmlGpuInstancePlacement_t(start, size)
        with (
            self._partitioning,
            nvml_errors(f"making profile {profile_id} at {start} of {gpu_uuid}"),
        ):
            gpu = pynvml.nvmlDeviceGetHandleByUUID(gpu_uuid)
            handle = pynvml.nvmlDeviceCreateGpuInstanceWithPlacement(gpu, profile_id, byref(place))
            try:
                self._create_compute_instance(handle)
            except pynvml.NVMLError:
                pynvml.nvmlGpuInstanceDestroy(handle)
                raise
            return self._instance(gpu_uuid, self._profile(gpu, profile_id), handle)

    def complete_instance(self, gpu_uuid: str, instance_id: int) -> None:
        """Add the missing compute instance to a GPU instance."""
        with self._partitioning, nvml_errors(f"completing instance {instance_id} of {gpu_uuid}"):
            gpu = pynvml.nvmlDeviceGetHandleByUUID(gpu_uuid)
            self._create_compute_instance(pynvml.nvmlDeviceGetGpuInstanceById(gpu, instance_id))

    def destroy_instance(self, gpu_uuid: str, instance_id: int) -> None:
        """Destroy its compute instances, then the GPU instance. Raises NvmlFailure, with IN_USE
        while a program has it open."""
        with self._partitioning, nvml_errors(f"deleting instance {instance_id} of {gpu_uuid}"):
            gpu = pynvml.nvmlDeviceGetHandleByUUID(gpu_uuid)
            instance = pynvml.nvmlDeviceGetGpuInstanceById(gpu, instance_id)
            for compute in self._compute_instances(instance):
                pynvml.nvmlComputeInstanceDestroy(compute)
            pynvml.nvmlGpuInstanceDestroy(instance)

    def set_mig_mode(self, gpu_uuid: str, *, on: bool) -> None:
        """Turn MIG on or off. Raises NvmlFailure unless the mode is current afterwards.

        The call itself succeeds even if nothing changed, so its status and the mode are checked.
        """
        with self._partitioning, nvml_errors(f"MIG mode of {gpu_uuid}"):
            gpu = pynvml.nvmlDeviceGetHandleByUUID(gpu_uuid)
            status = pynvml.nvmlDeviceSetMigMode(gpu, int(on))
            # Handles and minor numbers may have changed.
            current, pending = _mig_mode(pynvml.nvmlDeviceGetHandleByUUID(gpu_uuid))
        if current is on:
            return
        code = code_of(status)
        if status == pynvml.NVML_SUCCESS and pending is on:
            code = NvmlCode.RESET_REQUIRED
        raise NvmlFailure(code, f"MIG of {gpu_uuid} is not {'on' if on else 'off'} yet: {code}")

    def _device(self, index: int) -> GpuFacts:
        with nvml_errors(f"GPU {index}"):
            gpu = pynvml.nvmlDeviceGetHandleByIndex(index)
            current, pending = _mig_mode(gpu)
            return GpuFacts(
                index=index,
                uuid=as_text(pynvml.nvmlDeviceGetUUID(gpu)),
                product_name=as_text(pynvml.nvmlDeviceGetName(gpu)),
                memory_mib=pynvml.nvmlDeviceGetMemoryInfo(gpu).total // MIB,
                pci_bus_id=as_text(pynvml.nvmlDeviceGetPciInfo(gpu).busId),
                numa_node=_numa_node(gpu),
                mig_current=current,
                mig_pending=pending,
            )

    def _profiles(self, gpu: object) -> Iterator[tuple[int, str, int]]:
        """(id, name, maximum of instances) of each profile that the driver reports."""
        for query in range(pynvml.NVML_GPU_INSTANCE_PROFILE_COUNT):
            try:
                info = pynvml.nvmlDeviceGetGpuInstanceProfileInfo(gpu, query)
            except (pynvml.NVMLError_NotSupported, pynvml.NVMLError_InvalidArgument):
                continue
            yield info.id, as_text(info.name).removeprefix("MIG "), info.instanceCount

    def _profile(self, gpu: object, profile_id: int) -> tuple[int, str, int]:
        return next(p for p in self._profiles(gpu) if p[0] == profile_id)

    def _gpu_instances(self, gpu: object, profile: tuple[int, str, int]) -> list[object]:
        array = (pynvml.c_nvmlGpuInstance_t * profile[2])()
        count = c_uint()
        pynvml.nvmlDeviceGetGpuInstances(gpu, profile[0], array, byref(count))
        return list(array)[: count.value]

    def _compute_instances(self, instance: object) -> list[object]:
        found: list[object] = []
        for profile_id, max_instances in self._compute_profiles(instance):
            array = (pynvml.c_nvmlComputeInstance_t * max_instances)()
            count = c_uint()
            pynvml.nvmlGpuInstanceGetComputeInstances(instance, profile_id, array, byref(count))
            found += list(array)[: count.value]
        return found

    def _compute_profiles(self, instance: object) -> Iterator[tuple[int, int]]:
        for query in range(pynvml.NVML_COMPUTE_INSTANCE_PROFILE_COUNT):
            try:
                info = pynvml.nvmlGpuInstanceGetComputeInstanceProfileInfo(instance, query, 0)
            except (pynvml.NVMLError_NotSupported, pynvml.NVMLError_InvalidArgument):
                continue
            yield info.id, info.instanceCount

    def _create_compute_instance(self, instance: object) -> None:
        """Over the whole GPU instance: by a profile of which only one instance fits."""
        profiles = list(self._compute_profiles(instance))
        widest = [profile_id for profile_id, max_instances in profiles if max_instances == 1]
        pynvml.nvmlGpuInstanceCreateComputeInstance(instance, max(widest))

    def _instance(
        self, gpu_uuid: str, profile: tuple[int, str, int], handle: object
    ) -> InstanceFacts:
        info = pynvml.nvmlGpuInstanceGetInfo(handle)
        computes = self._compute_instances(handle)
        uuid = ""
        if computes:
            device = pynvml.nvmlComputeInstanceGetInfo(computes[0]).device
            uuid = as_text(pynvml.nvmlDeviceGetUUID(device))
        place = info.placement
        return InstanceFacts(
            gpu_uuid, info.id, profile[0], profile[1], place.start, place.size, uuid
        )


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
