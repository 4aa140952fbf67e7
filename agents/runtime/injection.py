"""Requests devices from an engine: by NVIDIA's hook, or by the Container Device Interface."""

from collections.abc import Sequence

from docker.types import DeviceRequest

CDI = "cdi"
# The CDI kind of devices that nvidia-ctk describes.
CDI_KIND = "nvidia.com/gpu"


def device_requests(injection: str, devices: Sequence[str]) -> list[DeviceRequest]:
    """A request for the devices with these UUIDs. `injection`: the policy's `device_injection`."""
    if not devices:
        return []
    if injection == CDI:
        names = [f"{CDI_KIND}={uuid}" for uuid in devices]
        return [DeviceRequest(driver="cdi", device_ids=names)]
    return [DeviceRequest(driver="nvidia", device_ids=list(devices), capabilities=[["gpu"]])]
