"""The TCP sockets that listen at a port of this machine. The kernel tells those of one port
(sock_diag(7)); /proc, which has a line for each connection as well, is read where it does not."""

import contextlib
import socket
import struct
from collections.abc import Iterator
from functools import cache
from ipaddress import IPv4Address, IPv6Address, ip_address
from pathlib import Path
from sys import byteorder

Address = IPv4Address | IPv6Address

PROC = Path("/proc")
# Of the fourth column of /proc/net/tcp (proc(5); net/tcp_states.h).
LISTEN = "0A"

# Of <linux/netlink.h>, <linux/sock_diag.h> and <net/tcp_states.h>.
NETLINK_SOCK_DIAG, SOCK_DIAG_BY_FAMILY = 4, 20
REQUEST_FLAGS = 0x1 | 0x300  # NLM_F_REQUEST, NLM_F_DUMP
NLMSG_ERROR, NLMSG_DONE = 2, 3
LISTENING_STATES = 1 << int(LISTEN, 16)
# nlmsghdr: length, type, flags, sequence, sender.
HEAD = struct.Struct("=IHHII")
# inet_diag_req_v2: family, protocol, states, source port, and nothing of the rest.
QUESTION = struct.Struct("=BBxxIH46x")
# inet_diag_msg: the source's address and the inode.
ANSWER = struct.Struct("=8x16s44xI")
MAX_ANSWER_BYTES, ANSWER_SECONDS = 64 << 10, 1.0
FAMILIES = {socket.AF_INET: 4, socket.AF_INET6: 16}


def listening_addresses(port: int) -> dict[str, Address]:
    """Where they listen, by inode, in this process's network namespace."""
    if _kernel_answers():
        with contextlib.suppress(OSError):
            return kernel_addresses(port)
    return proc_addresses(port)


def kernel_addresses(port: int) -> dict[str, Address]:
    """As the kernel tells. Raises OSError if it does not."""
    found: dict[str, Address] = {}
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, NETLINK_SOCK_DIAG) as kernel:
        kernel.settimeout(ANSWER_SECONDS)
        for family, size in FAMILIES.items():
            # The port is in the order of bytes of the network.
            question = (family, socket.IPPROTO_TCP, LISTENING_STATES, socket.htons(port))
            length = HEAD.size + QUESTION.size
            head = HEAD.pack(length, SOCK_DIAG_BY_FAMILY, REQUEST_FLAGS, 0, 0)
            kernel.send(head + QUESTION.pack(*question))
            for answer in _answers(kernel):
                source, inode = ANSWER.unpack_from(answer)
                found[str(inode)] = ip_address(source[:size])
    return found


def proc_addresses(port: int) -> dict[str, Address]:
    """As /proc tells."""
    found = {}
    for name in ("tcp", "tcp6"):
        with contextlib.suppress(OSError):
            # The first line has the names of the columns.
            for line in (PROC / "net" / name).read_text("ascii").splitlines()[1:]:
                columns = line.split()
                address, _, number = columns[1].partition(":")
                if columns[3] == LISTEN and int(number, 16) == port:
                    found[columns[9]] = _address(address)
    return found


@cache
def _kernel_answers() -> bool:
    """Not where it was built without it, or where a filter of system calls forbids it."""
    try:
        kernel_addresses(1)
    except OSError:
        return False
    return True


def _answers(kernel: socket.socket) -> Iterator[bytes]:
    """Until the last one. Raises OSError."""
    while True:
        data = kernel.recv(MAX_ANSWER_BYTES)
        at = 0
        while at < len(data):
            length, kind, *_ = HEAD.unpack_from(data, at)
            body = data[at + HEAD.size : at + length]
            if kind == NLMSG_DONE:
                return
            if kind == NLMSG_ERROR:
                code = -int.from_bytes(body[:4], byteorder, signed=True)
                raise OSError(code, "sock_diag")
            yield body
            # Each begins at a multiple of four bytes.
            at += (length + 3) & ~3


def _address(text: str) -> Address:
    """Each group of 32 bits is in the machine's own order of bytes."""
    groups = [bytes.fromhex(text[at : at + 8]) for at in range(0, len(text), 8)]
    return ip_address(b"".join(int.from_bytes(group).to_bytes(4, byteorder) for group in groups))
