"""C symbols about how GPUs are joined: PCIe, NVLink, peer access, near CPUs and memory.

Answers follow the notes of nvml.h. Not verified on hardware: which code peer access gives while MIG
is on (NOT_SUPPORTED here), and what a link that is down says of its remote end.
"""

from collections.abc import Callable
from ctypes import ArgumentError
from typing import Any

from agents.simdriver.codes import Code, DriverError
from agents.simdriver.fabric import FABRIC_SYMBOLS
from agents.simdriver.handles import Ref, gpu_of, put
from agents.simdriver.layouts import LAYOUTS, Layout, Level, path_level, switch_bus_id
from agents.simdriver.state import SimulatedGpu, SimulatedNode

NVLINK_MAX_LINKS = 36
WORD_BITS = 64
REMOTE_GPU, REMOTE_SWITCH = 0, 2
# nvmlNvlinkVersion_t, not the generation: 3.0 is 4, 4.0 is 6, 5.0 is 7.
NVLINK_VERSIONS = {"ampere": 4, "hopper": 6, "blackwell": 7}
PCIE_GENERATIONS = {"turing": 3, "ampere": 4, "ada": 4, "hopper": 5, "blackwell": 5}
PCIE_WIDTH = 16
CAP_NVLINK, CAP_ATOMICS, CAP_COUNT = 2, 3, 5
# Of nvmlNvLinkCapability_t: P2P supported, P2P atomics, valid.
NVLINK_CAPS, NVLINK_CAP_COUNT = (0, 2, 5), 6
P2P_OK, P2P_NOT_SUPPORTED = 0, 5
SCOPES = (0, 1)


def _at(library: Any, handle: Any) -> tuple[SimulatedNode, SimulatedGpu]:
    """The whole GPU: MIG devices have no links of their own."""
    ref = library.handles.ref(handle)
    if ref.gpu_instance is not None:
        raise DriverError(Code.INVALID_ARGUMENT)
    node = library.store.node()
    return node, gpu_of(node, ref)


def _layout(node: SimulatedNode) -> Layout:
    return LAYOUTS[node.layout]


def _common_ancestor(library: Any, one: Any, other: Any, out: Any) -> None:
    node, first = _at(library, one)
    _, second = _at(library, other)
    if first.uuid == second.uuid:
        out._obj.value = Level.INTERNAL
        return
    layout = _layout(node)
    places = [layout.place(gpu.index, gpu.numa_node) for gpu in (first, second)]
    out._obj.value = path_level(*places)


def _link(library: Any, handle: Any, link: Any) -> tuple[SimulatedNode, SimulatedGpu, Layout]:
    """A link that the GPU has. Beyond its last one, and without any, NOT_SUPPORTED."""
    node, gpu = _at(library, handle)
    layout = _layout(node)
    if not isinstance(link, int):
        raise ArgumentError("link is an int")
    if not 0 <= link < NVLINK_MAX_LINKS:
        raise DriverError(Code.INVALID_ARGUMENT)
    if link >= layout.links or _peer(node, gpu, layout) is None:
        raise DriverError(Code.NOT_SUPPORTED)
    return node, gpu, layout


def _live_link(library: Any, handle: Any, link: Any) -> tuple[SimulatedNode, SimulatedGpu, Layout]:
    node, gpu, layout = _link(library, handle, link)
    if link in gpu.nvlinks_down:
        raise DriverError(Code.NOT_SUPPORTED)
    return node, gpu, layout


def _peer(node: SimulatedNode, gpu: SimulatedGpu, layout: Layout) -> SimulatedGpu | None:
    """The GPU at the other end of the bridge; with NVSwitches any GPU is as good as itself."""
    if layout.switches:
        return gpu
    return next((g for g in node.gpus if g.index == gpu.index ^ 1), None)


def _link_state(library: Any, handle: Any, link: Any, out: Any) -> None:
    _, gpu, _ = _link(library, handle, link)
    out._obj.value = int(link not in gpu.nvlinks_down)


def _link_version(library: Any, handle: Any, link: Any, out: Any) -> None:
    _, gpu, _ = _live_link(library, handle, link)
    out._obj.value = NVLINK_VERSIONS[gpu.kind.architecture]


def _remote_type(library: Any, handle: Any, link: Any, out: Any) -> None:
    _, _, layout = _live_link(library, handle, link)
    out._obj.value = REMOTE_SWITCH if layout.switches else REMOTE_GPU


def _remote_pci(library: Any, handle: Any, link: Any, out: Any) -> None:
    node, gpu, layout = _live_link(library, handle, link)
    switch = layout.remote_switch(link)
    if switch is not None:
        bus_id = switch_bus_id(switch)
    else:
        peer = _peer(node, gpu, layout)
        bus_id = peer.pci_bus_id if peer else ""
    info = out._obj
    info.busId, info.busIdLegacy = bus_id.encode(), bus_id[4:].encode()
    info.domain, info.bus, info.device = 0, int(bus_id[9:11], 16), 0


def _capability(library: Any, handle: Any, link: Any, capability: Any, out: Any) -> None:
    """Peers and atomics by every link, the host's memory and SLI by none: not verified."""
    _live_link(library, handle, link)
    if not 0 <= _plain(capability) < NVLINK_CAP_COUNT:
        raise DriverError(Code.INVALID_ARGUMENT)
    out._obj.value = int(_plain(capability) in NVLINK_CAPS)


def _nearest(library: Any, handle: Any, level_asked: Any, count: Any, array: Any) -> None:
    """The GPUs at exactly this level; how many they are where no array is given."""
    node, gpu = _at(library, handle)
    if _plain(level_asked) not in set(Level):
        raise DriverError(Code.INVALID_ARGUMENT)
    layout = _layout(node)
    own = layout.place(gpu.index, gpu.numa_node)
    found = [
        other
        for other in node.gpus
        if other.index != gpu.index
        and path_level(own, layout.place(other.index, other.numa_node)) == _plain(level_asked)
    ]
    if array is not None:
        for index, other in enumerate(found[: count._obj.value]):
            put(library, array, index, Ref(other.uuid))
    count._obj.value = len(found)


def _plain(value: Any) -> int:
    """pynvml gives some enumerations as ints and some in a ctypes wrapper."""
    return int(getattr(value, "value", value))


def _p2p_status(library: Any, one: Any, other: Any, cap: Any, out: Any) -> None:
    """pynvml's NVML_P2P_CAPS_INDEX_READ is a tuple by mistake: ctypes refuses it, and so do we."""
    node, first = _at(library, one)
    _, second = _at(library, other)
    if not isinstance(cap, int):
        raise ArgumentError("p2pIndex is an int")
    if not 0 <= cap < CAP_COUNT:
        raise DriverError(Code.INVALID_ARGUMENT)
    if first.uuid == second.uuid:
        out._obj.value = P2P_OK
        return
    joined = _joined(_layout(node), first, second)
    needs_links = cap in (CAP_NVLINK, CAP_ATOMICS)
    refused = first.mig_current or second.mig_current or (needs_links and not joined)
    out._obj.value = P2P_NOT_SUPPORTED if refused else P2P_OK


def _joined(layout: Layout, one: SimulatedGpu, other: SimulatedGpu) -> bool:
    live = all(layout.links > len(set(gpu.nvlinks_down)) for gpu in (one, other))
    return live and bool(layout.switches or one.index ^ 1 == other.index)


def _cpus(library: Any, handle: Any, size: Any, out: Any) -> None:
    node, gpu = _at(library, handle)
    numa = _layout(node).place(gpu.index, gpu.numa_node).numa
    _bits(_layout(node).cpus[numa], size, out)


def _cpus_within(library: Any, handle: Any, size: Any, out: Any, scope: Any) -> None:
    if scope.value not in SCOPES:
        raise DriverError(Code.INVALID_ARGUMENT)
    _cpus(library, handle, size, out)


def _memory(library: Any, handle: Any, size: Any, out: Any, scope: Any) -> None:
    if scope.value not in SCOPES:
        raise DriverError(Code.INVALID_ARGUMENT)
    node, gpu = _at(library, handle)
    _bits((_layout(node).place(gpu.index, gpu.numa_node).numa,), size, out)


def _bits(numbers: tuple[int, ...], size: Any, out: Any) -> None:
    """Into the caller's words of 64 bits; what is beyond them is left out, as nvml.h says."""
    if not isinstance(size, int) or size < 1 or out is None:
        raise DriverError(Code.INVALID_ARGUMENT)
    words = [0] * size
    for number in numbers:
        if number < size * WORD_BITS:
            words[number // WORD_BITS] |= 1 << number % WORD_BITS
    for index, word in enumerate(words):
        out._obj[index] = word


def _numa_node(library: Any, handle: Any, out: Any) -> None:
    """Only where a GPU is a NUMA node itself, as on Grace Hopper: none of our layouts."""
    _at(library, handle)
    raise DriverError(Code.NOT_SUPPORTED)


def _pcie_generation(library: Any, handle: Any, out: Any) -> None:
    _, gpu = _at(library, handle)
    out._obj.value = PCIE_GENERATIONS[gpu.kind.architecture]


def _pcie_width(library: Any, handle: Any, out: Any) -> None:
    _at(library, handle)
    out._obj.value = PCIE_WIDTH


LINK_SYMBOLS: dict[str, Callable[..., Any]] = {
    "nvmlDeviceGetTopologyCommonAncestor": _common_ancestor,
    "nvmlDeviceGetTopologyNearestGpus": _nearest,
    "nvmlDeviceGetNvLinkCapability": _capability,
    "nvmlDeviceGetNvLinkState": _link_state,
    "nvmlDeviceGetNvLinkVersion": _link_version,
    "nvmlDeviceGetNvLinkRemoteDeviceType": _remote_type,
    "nvmlDeviceGetNvLinkRemotePciInfo_v2": _remote_pci,
    "nvmlDeviceGetP2PStatus": _p2p_status,
    "nvmlDeviceGetCpuAffinity": _cpus,
    "nvmlDeviceGetCpuAffinityWithinScope": _cpus_within,
    "nvmlDeviceGetMemoryAffinity": _memory,
    "nvmlDeviceGetNumaNodeId": _numa_node,
    "nvmlDeviceGetCurrPcieLinkGeneration": _pcie_generation,
    "nvmlDeviceGetMaxPcieLinkGeneration": _pcie_generation,
    "nvmlDeviceGetCurrPcieLinkWidth": _pcie_width,
    "nvmlDeviceGetMaxPcieLinkWidth": _pcie_width,
    **FABRIC_SYMBOLS,
}
