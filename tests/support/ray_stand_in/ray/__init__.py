"""Stands in for Ray where only its processes matter: `init` and `nodes`, as a driver calls them."""

import socket

_head = ("", 0)


def init(address, **_):
    global _head
    host, _, port = address.rpartition(":")
    _head = (host, int(port))


def nodes():
    with socket.create_connection(_head) as link:
        link.sendall(b"count\n")
        return [{"Alive": True}] * int(link.makefile().readline())
