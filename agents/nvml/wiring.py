"""Reads how the GPUs are connected.

What a driver or a board does not report is left empty; it is never an error.
"""

from collections.abc import Callable
from itertools import combinations
from typing import Any
from uuid import UUID

import pynvml

from agents.facts.wiring import (
    FabricState,
    GpuPath,
    GpuWiring,
    LinkPeer,
    NvLink,
    NvlinkFabric,
    PathLevel,
    PeerAccess,
    PeerStatus,
)
from agents.nvml.errors import nvml_errors
from agents.nvml.session import Nvml, as_text

LEVELS = {
    pynvml.NVML_TOPOLOGY_INTERNAL: PathLevel.INTERNAL,
    pynvml.NVML_TOPOLOGY_SINGLE: PathLevel.SINGLE_SWITCH,
    pynvml.NVML_TOPOLOGY_MULTIPLE: PathLevel.SEVERAL_SWITCHES,
    pynvml.NVML_TOPOLOGY_HOSTBRIDGE: PathLevel.HOST_BRIDGE,
    pynvml.NVML_TOPOLOGY_NODE: PathLevel.NUMA_NODE,
    pynvml.NVML_TOPOLOGY_SYSTEM: PathLevel.SYSTEM,
}
STATUSES = {
    pynvml.NVML_P2P_STATUS_OK: PeerStatus.OK,
    pynvml.NVML_P2P_STATUS_CHIPSET_NOT_SUPPORTED: PeerStatus.CHIPSET_NOT_SUPPORTED,
    pynvml.NVML_P2P_STATUS_GPU_NOT_SUPPORTED: PeerStatus.GPU_NOT_SUPPORTED,
    pynvml.NVML_P2P_STATUS_IOH_TOPOLOGY_NOT_SUPPORTED: PeerStatus.TOPOLOGY_NOT_SUPPORTED,
    pynvml.NVML_P2P_STATUS_DISABLED_BY_REGKEY: PeerStatus.DISABLED_BY_REGISTRY,
    pynvml.NVML_P2P_STATUS_NOT_SUPPORTED: PeerStatus.NOT_SUPPORTED,
}
REMOTES = {
    pynvml.NVML_NVLINK_DEVICE_TYPE_GPU: LinkPeer.GPU,
    pynvml.NVML_NVLINK_DEVICE_TYPE_SWITCH: LinkPeer.SWITCH,
}
# nvmlNvlinkVersion_t of nvml.h: the numbers are not the generations.
GENERATIONS = {1: "1.0", 2: "2.0", 3: "2.2", 4: "3.0", 5: "3.1", 6: "4.0", 7: "5.0", 8: "6.0"}
FABRIC_STATES = {
    pynvml.NVML_GPU_FABRIC_STATE_NOT_SUPPORTED: FabricState.NOT_SUPPORTED,
    pynvml.NVML_GPU_FABRIC_STATE_NOT_STARTED: FabricState.NOT_STARTED,
    pynvml.NVML_GPU_FABRIC_STATE_IN_PROGRESS: FabricState.IN_PROGRESS,
    pynvml.NVML_GPU_FABRIC_STATE_COMPLETED: FabricState.COMPLETED,
}
# READ by its number in nvml.h: pynvml's constant for it is a tuple by mistake.
CAPS = (
    0,
    pynvml.NVML_P2P_CAPS_INDEX_WRITE,
    pynvml.NVML_P2P_CAPS_INDEX_NVLINK,
    pynvml.NVML_P2P_CAPS_INDEX_ATOMICS,
)
WORD_BITS = 64
CPU_WORDS, NODE_WORDS = 64, 16
# These only mean that the driver does not report it here; others, such as a lost GPU, are errors.
UNREPORTED = (
    pynvml.NVMLError_NotSupported,
    pynvml.NVMLError_InvalidArgument,
    pynvml.NVMLError_FunctionNotFound,
    pynvml.NVMLError_NotFound,
    pynvml.NVMLError_NoPermission,
    pynvml.NVMLError_ArgumentVersionMismatch,
)


def read_wiring(nvml: Nvml) -> tuple[tuple[GpuWiring, ...], dict[tuple[int, int], GpuPath]]:
    """All GPUs that answer, and the path between every two of them by (lower, higher) index.

    Raises NvmlFailure."""
    facts = nvml.devices()
    with nvml_errors("topology"):
        handles = {f.index: nvml.known_gpus.handle(f.uuid) for f in facts}
        gpus = tuple(_wiring(f.index, f.uuid, f.pci_bus_id, handles[f.index]) for f in facts)
        paths = {
            (one, other): _path(handles[one], handles[other])
            for one, other in combinations(sorted(handles), 2)
        }
    return gpus, paths


def _wiring(index: int, uuid: str, pci_bus_id: str, gpu: object) -> GpuWiring:
    own = _optional(pynvml.nvmlDeviceGetNumaNodeId, gpu)
    node = pynvml.NVML_AFFINITY_SCOPE_NODE
    return GpuWiring(
        index=index,
        uuid=uuid,
        pci_bus_id=pci_bus_id,
        pcie_generation=_optional(pynvml.nvmlDeviceGetMaxPcieLinkGeneration, gpu),
        pcie_width=_optional(pynvml.nvmlDeviceGetCurrPcieLinkWidth, gpu),
        cpus=_numbers(_optional(pynvml.nvmlDeviceGetCpuAffinity, gpu, CPU_WORDS)),
        numa_nodes=_numbers(_optional(pynvml.nvmlDeviceGetMemoryAffinity, gpu, NODE_WORDS, node)),
        own_numa_node=own if own is not None and own >= 0 else None,
        links=_links(gpu),
        fabric=_fabric(gpu),
    )


def _fabric(gpu: object) -> NvlinkFabric | None:
    """`status` is the result, and only valid once the state is COMPLETED (nvml.h)."""
    info = pynvml.c_nvmlGpuFabricInfo_v2_t()
    if _optional(pynvml.nvmlDeviceGetGpuFabricInfoV, gpu, pynvml.byref(info)) is None:
        return None
    state = FABRIC_STATES.get(info.state, FabricState.NOT_SUPPORTED)
    if state is FabricState.COMPLETED and info.status != pynvml.NVML_SUCCESS:
        state = FabricState.FAILED
    cluster = UUID(bytes=bytes(info.clusterUuid))
    return NvlinkFabric(state, str(cluster) if cluster.int else "", info.cliqueId)


def _links(gpu: object) -> tuple[NvLink, ...]:
    """The active links: one that is down, or that the board lacks, is left out."""
    numbers = range(pynvml.NVML_NVLINK_MAX_LINKS)
    return tuple(
        _link(gpu, n) for n in numbers if _optional(pynvml.nvmlDeviceGetNvLinkState, gpu, n)
    )


def _link(gpu: object, number: int) -> NvLink:
    version = _optional(pynvml.nvmlDeviceGetNvLinkVersion, gpu, number)
    remote = REMOTES.get(
        _optional(pynvml.nvmlDeviceGetNvLinkRemoteDeviceType, gpu, number), LinkPeer.OTHER_DEVICE
    )
    pci = _optional(pynvml.nvmlDeviceGetNvLinkRemotePciInfo, gpu, number)
    bus_id = as_text(pci.busId).upper() if pci is not None else ""
    return NvLink(number, GENERATIONS.get(version, ""), remote, bus_id)


def _path(first: object, second: object) -> GpuPath:
    level = LEVELS.get(_optional(pynvml.nvmlDeviceGetTopologyCommonAncestor, first, second))
    read, write, nvlink, atomics = (
        STATUSES.get(
            _optional(pynvml.nvmlDeviceGetP2PStatus, first, second, cap), PeerStatus.UNKNOWN
        )
        for cap in CAPS
    )
    return GpuPath(level, PeerAccess(read, write, nvlink, atomics))


def _optional(call: Callable[..., Any], *arguments: object) -> Any:
    """None if this driver or board does not report it."""
    try:
        return call(*arguments)
    except UNREPORTED:
        return None


def _numbers(words: Any) -> tuple[int, ...]:
    """The numbers of the bits that are set in words of 64, lowest first."""
    return tuple(
        number * WORD_BITS + bit
        for number, word in enumerate(words or ())
        for bit in range(WORD_BITS)
        if word >> bit & 1
    )
