"""At which TCP ports processes listen."""

import contextlib
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from agents.host.socket_table import Address, listening_addresses

SOCKET = re.compile(r"socket:\[([0-9]+)\]")


@dataclass(frozen=True, slots=True)
class ListeningSocket:
    """A socket of a process that listens at a port."""

    address: str
    """Where it is reached on this machine."""
    descriptor: Path
    """As which the process has it open, in /proc."""
    inode: str


def find_listening_socket(pids: Iterable[int], port: int) -> ListeningSocket | None:
    """The first socket of one of these processes that listens at the port."""
    by_inode = listening_addresses(port)
    if not by_inode:
        return None
    for pid in pids:
        for descriptor, inode in _open_sockets(pid):
            if address := by_inode.get(inode):
                return ListeningSocket(_reachable(address), descriptor, inode)
    return None


def still_listens(candidate: ListeningSocket, port: int) -> bool:
    """Whether its process has it open as before, and it listens at the port as before. Other
    processes are not looked at, which are hundreds."""
    address = listening_addresses(port).get(candidate.inode)
    is_there = address is not None and _reachable(address) == candidate.address
    return is_there and _inode(candidate.descriptor) == candidate.inode


def _reachable(address: Address) -> str:
    """A socket that listens at all addresses is reached on loopback. One for all addresses of IPv6
    takes connections by IPv4 as well, unless it says that it does not: then it is tried in vain."""
    return "127.0.0.1" if address.is_unspecified else str(address)


def _open_sockets(pid: int) -> Iterator[tuple[Path, str]]:
    """The descriptors of a process that are sockets, in /proc, each with its inode."""
    with contextlib.suppress(OSError):
        for descriptor in Path(f"/proc/{pid}/fd").iterdir():
            if inode := _inode(descriptor):
                yield descriptor, inode


def _inode(descriptor: Path) -> str:
    """Empty if it is no socket, or closed."""
    with contextlib.suppress(OSError):
        if match := SOCKET.fullmatch(str(descriptor.readlink())):
            return match[1]
    return ""
