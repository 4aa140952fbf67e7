"""What each GPU and each MIG instance can give to shares, from the driver's facts. Pure."""

from collections.abc import Iterable

from agents.facts.device_keys import DeviceKey, whole_gpu_key
from agents.facts.gpus import GpuFacts, InstanceFacts
from agents.mps.limits import max_clients
from agents.mps.refusals import ShareCapacity


def share_capacities(
    gpus: Iterable[GpuFacts], instances: Iterable[InstanceFacts], cuda: str
) -> dict[DeviceKey, ShareCapacity]:
    """The capacity of every existing device. The memory of an instance on an unknown board is 0."""
    by_uuid = {gpu.uuid: gpu for gpu in gpus}
    capacities: dict[DeviceKey, ShareCapacity] = {}
    for gpu in by_uuid.values():
        clients = max_clients(cuda, gpu.board.compute_capability)
        capacities[whole_gpu_key(gpu.uuid)] = ShareCapacity(gpu.memory_mib, clients)
    for instance in instances:
        board = by_uuid[instance.gpu_uuid].board
        profile = board.profile(instance.profile)
        width = (profile.compute_slices, board.compute_slices) if profile else (1, 1)
        clients = max_clients(cuda, board.compute_capability, *width)
        memory_mib = profile.memory_mib if profile else 0
        capacities[instance.key] = ShareCapacity(memory_mib, clients)
    return capacities
