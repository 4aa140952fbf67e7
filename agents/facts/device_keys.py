"""Which device is meant, by where it is: a UUID is new each time that an instance is made."""

from agents.contract.documents import Device, SliceKind

DeviceKey = tuple[str, str, int, int]  # GPU UUID, profile, start, size; a whole GPU has size 0


def whole_gpu_key(gpu_uuid: str) -> DeviceKey:
    return (gpu_uuid, "", 0, 0)


def device_key(device: Device) -> DeviceKey:
    """With the profile: 3g and 4g of one GPU have the same place, and are not the same slice. An
    MPS share is of the GPU or the instance that it is a part of."""
    is_share_of_all = device.kind is SliceKind.MPS and not device.profile
    if device.kind is SliceKind.GPU or is_share_of_all:
        return whole_gpu_key(device.gpu_uuid)
    return (device.gpu_uuid, device.profile, device.start, device.size)


InstancePlace = tuple[str, int, int]  # GPU UUID, start, size; a whole GPU has size 0


def device_place(device: Device) -> InstancePlace:
    """Where a replica's device is, whatever its profile."""
    gpu_uuid, _, start, size = device_key(device)
    return (gpu_uuid, start, size)
