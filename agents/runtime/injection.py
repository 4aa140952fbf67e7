"""How an engine is asked for devices: by the nvidia driver's hook, or by the device interface."""

from collections.abc import Sequence

from docker.types import DeviceRequest

CDI = "cdi"
# The kind that nvidia-ctk gives its devices.
CDI_KIND = "nvidia.com/gpu"


def device_requests(injection: str, devices: Sequence[str]) -> list[DeviceRequest]:
    """One request for the devices with these UUIDs, by the policy's `device_injection`."""
    if not devices:
        return []
    if injection == CDI:
        names = [f"{CDI_KIND}={uuid}" for uuid in devices]
        return [DeviceRequest(driver="cdi", device_ids=names)]
    return [DeviceRequest(driver="nvidia", device_ids=list(devices), capabilities=[["gpu"]])]
