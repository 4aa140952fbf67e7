"""A port of loopback that nobody has now. The suite has its own, as it needs no Docker."""

import socket


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
    return port
