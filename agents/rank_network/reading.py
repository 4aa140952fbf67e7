"""What this node's network offers ranks, from its policy, its topology and the kernel's files."""

from pathlib import Path

from agents.admission.policy import AUTO, NodePolicy
from agents.collectives.place import common_link_layer
from agents.collectives.variables import INFINIBAND
from agents.contract.documents import RuntimeKind
from agents.contract.rank_network import NoRdma, RankNetwork
from agents.contract.topology import NodeTopology
from agents.overlay.commands import NetworkRefused
from agents.overlay.interfaces import interface_with, read_interfaces

# A container's own interface, on a bridge of its job or an overlay.
CONTAINER_INTERFACE = "eth0"
LOOPBACK_INTERFACE = "lo"
PEERMEM_MODULES = ("nvidia_peermem", "nv_peer_mem")
# Columns of /proc/net/route (the kernel's fib_trie.c), and the flag RTF_UP.
INTERFACE, DESTINATION, FLAGS, METRIC, MASK = 0, 1, 3, 6, 7
UP = 1


def read_rank_network(
    policy: NodePolicy,
    runtime: RuntimeKind,
    topology: NodeTopology,
    root: Path = Path("/"),
    *,
    address_interface: str = "",
) -> RankNetwork:
    """`root`: below it are /sys and /proc. `address_interface`: the interface that has the address
    at which gangs with the host's network meet; empty if none is known."""
    on_host = runtime is RuntimeKind.DOCKER and policy.network == "host"
    interface = CONTAINER_INTERFACE
    if runtime is RuntimeKind.PROCESS:
        interface = LOOPBACK_INTERFACE
    elif on_host:
        interface = policy.fabric_interface
        if interface == AUTO:
            routes = _text(root / "proc" / "net" / "route")
            interface = address_interface or default_interface(routes)
    has_own_network = runtime is RuntimeKind.DOCKER and not on_host
    no_rdma = _no_rdma(policy, topology, has_own_network=has_own_network)
    return RankNetwork(
        interface=interface,
        rdma="" if no_rdma else common_link_layer(topology),
        no_rdma=str(no_rdma or ""),
        peermem=any((root / "sys" / "module" / name).exists() for name in PEERMEM_MODULES),
        gdr_level="" if policy.gdr_level == AUTO else policy.gdr_level,
        sharp=policy.sharp,
        mnnvl=policy.mnnvl,
    )


def interface_of(address: str) -> str:
    """The name of this machine's interface with that address; empty if none has it."""
    try:
        found = interface_with(address, read_interfaces()) if address else None
    except NetworkRefused:
        return ""
    return found.name if found else ""


def _no_rdma(policy: NodePolicy, topology: NodeTopology, *, has_own_network: bool) -> NoRdma | None:
    """Why this node offers no RDMA to jobs.

    A RoCE device has its addresses by an interface of the host, which a container with a network of
    its own does not have; an InfiniBand device has its own."""
    if not policy.rdma:
        return NoRdma.POLICY
    layer = common_link_layer(topology)
    if not layer:
        return NoRdma.NO_RAIL
    return NoRdma.CONTAINER_NETWORK if has_own_network and layer != INFINIBAND else None


def default_interface(routes: str) -> str:
    """The interface of the default route in /proc/net/route with the lowest metric; empty if there
    is none."""
    found: list[tuple[int, str]] = []
    for line in routes.splitlines()[1:]:
        words = line.split()
        if len(words) <= MASK or not int(words[FLAGS], 16) & UP:
            continue
        if int(words[DESTINATION], 16) == 0 == int(words[MASK], 16):
            found.append((int(words[METRIC]), words[INTERFACE]))
    return min(found)[1] if found else ""


def _text(path: Path) -> str:
    try:
        return path.read_text("utf-8")
    except OSError:
        return ""
