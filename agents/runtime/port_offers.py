"""The ports at which gangs are to meet where several of them share one address.

A port that is free when it is chosen is used only once rank 0 has started. Until then another gang
could be given it too, or the kernel lend it to any connection that the machine opens. So each port
lies outside the range that the kernel lends from, and is offered to one replica at a time. Where
the search begins depends on the replica: the next attempt of a gang meets at another port, out of
reach of whatever is left of the one before.
"""

import socket
import threading
import zlib
from collections.abc import Collection
from contextlib import suppress
from itertools import chain
from pathlib import Path

PORTS = range(20_000, 32_000)
LENT_BY_KERNEL = Path("/proc/sys/net/ipv4/ip_local_port_range")


class PortOffers:
    """The offers of one agent at one address; empty: all addresses of the machine."""

    def __init__(self, address: str) -> None:
        self._address = address
        self._by_replica: dict[str, int] = {}
        self._lock = threading.Lock()

    def offer(self, replica: str, taken: Collection[int]) -> int:
        """A port for this replica. `taken`: those of the replicas that are on the node already, as
        an earlier agent may have offered them."""
        with self._lock:
            others = {port for key, port in self._by_replica.items() if key != replica}
            port = _free_port(self._address, replica, others.union(taken))
            self._by_replica[replica] = port
            return port

    def keep(self, replicas: Collection[str]) -> None:
        """Withdraw the offers of all other replicas."""
        with self._lock:
            for gone in self._by_replica.keys() - set(replicas):
                del self._by_replica[gone]


def _free_port(address: str, replica: str, taken: Collection[int]) -> int:
    first = zlib.crc32(replica.encode()) % len(PORTS)
    lent = _lent_by_kernel()
    for port in chain(PORTS[first:], PORTS[:first]):
        if port not in taken and port not in lent and _is_free(address, port):
            return port
    # A machine whose kernel lends all ports, or with thousands of gangs.
    with socket.socket() as probe:
        probe.bind((address, 0))
        return int(probe.getsockname()[1])


def _is_free(address: str, port: int) -> bool:
    """Also not while connections of an earlier gang linger there."""
    with socket.socket() as probe, suppress(OSError):
        probe.bind((address, port))
        return True
    return False


def _lent_by_kernel() -> range:
    try:
        low, high = map(int, LENT_BY_KERNEL.read_text("ascii").split())
    except (OSError, ValueError):
        return range(0)
    return range(low, high + 1)
