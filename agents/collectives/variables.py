"""The variables of NCCL, gloo and PyTorch's flight recorder, each with its reason. Pure.

Sources: NCCL's manual, "Environment Variables" (2.29); PyTorch's "Flight Recorder" and
ProcessGroupNCCL.hpp. What a launcher or a program sets itself is not set here, such as
TORCH_NCCL_ASYNC_ERROR_HANDLING, which is torchrun's. None of the names is reserved: what a request
sets, stays.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from agents.collectives.place import RankPlace
from agents.contract.message import Message
from agents.contract.rank_network import MnnvlUse, NoRdma

ETHERNET, INFINIBAND = "Ethernet", "InfiniBand"
# PyTorch 2.9 reads the newer name first, and the older one still: only that is known to all.
FLIGHT_RECORDER_NAMES = {
    "TORCH_NCCL_TRACE_BUFFER_SIZE": "TORCH_FR_BUFFER_SIZE",
    "TORCH_NCCL_DEBUG_INFO_TEMP_FILE": "TORCH_FR_DUMP_TEMP_FILE",
}
# Collectives that it remembers: PyTorch's own number where it is on by default.
RECORDED_COLLECTIVES = 2_000
# PyTorch appends the rank.
DUMP_FILE = "nccl_trace_rank_"
# By name and value of a policy.
_MNNVL = {MnnvlUse.ON: "1", MnnvlUse.OFF: "0"}
# What a request may set that is worth showing beside ours.
SHOWN_PREFIXES = ("NCCL_", "GLOO_", "TORCH_NCCL_", "TORCH_FR_", "TP_SOCKET_IFNAME")


@dataclass(frozen=True, slots=True)
class RankVariable:
    """A variable of a replica's environment."""

    name: str
    value: str
    why: Message
    # The value is that of the request.
    is_requested: bool = False


def rank_variables(place: RankPlace, no_rdma: str = "") -> tuple[RankVariable, ...]:
    """What the collective libraries of this replica are told, by name. `no_rdma`: why the gang uses
    no RDMA, a `NoRdma`; by default what its node reports."""
    ours = {one.name: one for one in _ours(place, no_rdma or place.network.no_rdma)}
    requested = {
        name: RankVariable(name, value, _requested(ours.get(name)), is_requested=True)
        for name, value in place.env.items()
        if name.startswith(SHOWN_PREFIXES)
    }
    for older, newer in FLIGHT_RECORDER_NAMES.items():
        if newer in requested:
            ours.pop(older, None)
    return tuple((ours | requested)[name] for name in sorted(ours | requested))


def rank_environment(place: RankPlace) -> dict[str, str]:
    """The variables that are not the request's own."""
    return {one.name: one.value for one in rank_variables(place) if not one.is_requested}


def _requested(ours: RankVariable | None) -> Message:
    if ours is None:
        return Message("Set by the request.")
    return Message("Set by the request; Tessera would set %(value)s.", value=ours.value)


def _ours(place: RankPlace, no_rdma: str) -> Iterator[RankVariable]:
    if place.replicas > 1:
        yield from _interfaces(place)
        if place.uses_nccl:
            yield from _rdma(place) if place.uses_rdma else _sockets(no_rdma)
            yield from _mnnvl(place)
    if place.uses_nccl:
        yield from _flight_recorder(place)


def _interfaces(place: RankPlace) -> Iterator[RankVariable]:
    interface = place.network.interface
    if not interface:
        return
    why = Message("The ranks reach each other by this interface.")
    yield RankVariable("GLOO_SOCKET_IFNAME", interface, why)
    if place.uses_nccl:
        yield RankVariable("NCCL_SOCKET_IFNAME", f"={interface}", why)


def _rdma(place: RankPlace) -> Iterator[RankVariable]:
    rails, network = place.rails, place.network
    devices = ",".join(f"{nic.name}:{nic.port}" for nic in rails)
    why = Message("The RDMA devices nearest to this replica's GPUs, and no others.")
    yield RankVariable("NCCL_IB_HCA", f"={devices}", why)
    indexes = {nic.gid_index for nic in rails}
    if len(indexes) == 1 and None not in indexes and rails[0].link_layer == ETHERNET:
        why = Message("All of these devices have their RoCE v2 address on IPv4 there.")
        yield RankVariable("NCCL_IB_GID_INDEX", str(indexes.pop()), why)
    if network.peermem and network.gdr_level:
        why = Message("The node's policy; nvidia-peermem is loaded.")
        yield RankVariable("NCCL_NET_GDR_LEVEL", network.gdr_level, why)
    if network.sharp and rails and rails[0].link_layer == INFINIBAND:
        why = Message("The node's policy: its InfiniBand switches reduce (SHARP).")
        yield RankVariable("NCCL_COLLNET_ENABLE", "1", why)


def _sockets(no_rdma: str) -> Iterator[RankVariable]:
    """All ranks of a gang have to agree: one that finds a device could not reach the others."""
    yield RankVariable("NCCL_IB_DISABLE", "1", no_rdma_reason(no_rdma))


def no_rdma_reason(code: str) -> Message:
    """Why ranks use no RDMA; `code`: a `NoRdma`, or the word of a newer agent."""
    match code:
        case NoRdma.POLICY:
            return Message("No RDMA: the node's policy does not offer it to jobs.")
        case NoRdma.NO_RAIL:
            return Message("No RDMA: not every GPU of the node has an RDMA device that is up.")
        case NoRdma.CONTAINER_NETWORK:
            return Message(
                "No RDMA: RoCE needs the host's network, and jobs have their own on this node."
            )
        case NoRdma.REQUEST:
            return Message("No RDMA: the request sets rdma to off.")
        case NoRdma.OTHER_NODE:
            return Message("No RDMA: not every node of the gang offers the same.")
    return Message("No RDMA on this node.")


def _mnnvl(place: RankPlace) -> Iterator[RankVariable]:
    value = _MNNVL.get(MnnvlUse(place.network.mnnvl)) if place.network.mnnvl in _MNNVL else None
    if value:
        why = Message("The node's policy for NVLinks between nodes.")
        yield RankVariable("NCCL_MNNVL_ENABLE", value, why)


def _flight_recorder(place: RankPlace) -> Iterator[RankVariable]:
    why = Message("PyTorch remembers the last collectives of each rank.")
    yield RankVariable("TORCH_NCCL_TRACE_BUFFER_SIZE", str(RECORDED_COLLECTIVES), why)
    why = Message("Where a collective times out, each rank writes what it remembers.")
    yield RankVariable("TORCH_NCCL_DUMP_ON_TIMEOUT", "1", why)
    why = Message("The record is kept with the output of the attempt.")
    yield RankVariable("TORCH_NCCL_DEBUG_INFO_TEMP_FILE", f"{place.output}/{DUMP_FILE}", why)
