"""Identifies a device by its place: an instance gets a new UUID each time it is created."""

from agents.contract.documents import Device, SliceKind

DeviceKey = tuple[str, str, int, int]  # GPU UUID, profile, start, size; a whole GPU has size 0


def whole_gpu_key(gpu_uuid: str) -> DeviceKey:
    return (gpu_uuid, "", 0, 0)


def device_key(device: Device) -> DeviceKey:
    """The key of a replica's device; that of an MPS share is the key of what it is a part of.

    It includes the profile: 3g and 4g may have one place on a GPU, and are different slices."""
    is_share_of_all = device.kind is SliceKind.MPS and not device.profile
    if device.kind is SliceKind.GPU or is_share_of_all:
        return whole_gpu_key(device.gpu_uuid)
    return (device.gpu_uuid, device.profile, device.start, device.size)


InstancePlace = tuple[str, int, int]  # GPU UUID, start, size; a whole GPU has size 0


def device_place(device: Device) -> InstancePlace:
    """The place of a replica's device, whatever its profile."""
    gpu_uuid, _, start, size = device_key(device)
    return (gpu_uuid, start, size)
