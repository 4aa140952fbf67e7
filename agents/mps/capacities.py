"""What each GPU and each MIG instance has for shares, from what the driver told. Pure."""

from collections.abc import Iterable

from agents.facts.device_keys import DeviceKey, whole_gpu_key
from agents.facts.gpus import GpuFacts, InstanceFacts
from agents.mps.limits import max_clients
from agents.mps.refusals import ShareCapacity


def share_capacities(
    gpus: Iterable[GpuFacts], instances: Iterable[InstanceFacts], cuda: str
) -> dict[DeviceKey, ShareCapacity]:
    """By place, what exists now. The memory of an instance of a board without a table is 0: not
    known."""
    by_uuid = {gpu.uuid: gpu for gpu in gpus}
    found: dict[DeviceKey, ShareCapacity] = {}
    for gpu in by_uuid.values():
        most = max_clients(cuda, gpu.board.compute_capability)
        found[whole_gpu_key(gpu.uuid)] = ShareCapacity(gpu.memory_mib, most)
    for instance in instances:
        board = by_uuid[instance.gpu_uuid].board
        profile = board.profile(instance.profile)
        width = (profile.compute_slices, board.compute_slices) if profile else (1, 1)
        most = max_clients(cuda, board.compute_capability, *width)
        found[instance.key] = ShareCapacity(profile.memory_mib if profile else 0, most)
    return found
