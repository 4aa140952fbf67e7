"""Which TCP ports processes listen at, as /proc tells."""

import contextlib
import re
from collections.abc import Iterable
from ipaddress import IPv4Address, IPv6Address, ip_address
from pathlib import Path
from sys import byteorder

PROC = Path("/proc")
# Of the fourth column of /proc/net/tcp (proc(5); net/tcp_states.h).
LISTEN = "0A"
SOCKET = re.compile(r"socket:\[([0-9]+)\]")


def listening_address(pids: Iterable[int], port: int) -> str:
    """At which address of this machine one of these processes listens at the port; empty if none
    does. A socket that listens at all addresses is reached on loopback."""
    by_inode = dict(_listening(port))
    if not by_inode:
        return ""
    for pid in pids:
        for inode in _socket_inodes(pid):
            if address := by_inode.get(inode):
                return _reachable(address)
    return ""


def _listening(port: int) -> Iterable[tuple[str, IPv4Address | IPv6Address]]:
    """By inode, the sockets that listen at the port, in this process's network namespace."""
    for name in ("tcp", "tcp6"):
        with contextlib.suppress(OSError):
            # The first line has the names of the columns.
            for line in (PROC / "net" / name).read_text("ascii").splitlines()[1:]:
                columns = line.split()
                address, _, number = columns[1].partition(":")
                if columns[3] == LISTEN and int(number, 16) == port:
                    yield columns[9], _address(address)


def _address(text: str) -> IPv4Address | IPv6Address:
    """Each group of 32 bits is in the machine's own order of bytes."""
    groups = [bytes.fromhex(text[at : at + 8]) for at in range(0, len(text), 8)]
    return ip_address(b"".join(int.from_bytes(group).to_bytes(4, byteorder) for group in groups))


def _reachable(address: IPv4Address | IPv6Address) -> str:
    # A socket for all addresses of IPv6 takes connections by IPv4 as well, unless it says that it
    # does not: then it is tried in vain.
    return "127.0.0.1" if address.is_unspecified else str(address)


def _socket_inodes(pid: int) -> Iterable[str]:
    with contextlib.suppress(OSError):
        for entry in (PROC / str(pid) / "fd").iterdir():
            with contextlib.suppress(OSError):
                if match := SOCKET.fullmatch(str(entry.readlink())):
                    yield match[1]
