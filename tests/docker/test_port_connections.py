"""Connections to ports of containers on a real engine: the container, its loopback too, and nothing
else."""

import os
import socket

import pytest

from agents.contract.tunnel import StreamTarget
from agents.ports.replica_ports import CONNECT_SECONDS, replica_ports
from agents.runtime import docker_ports
from agents.tunnel.link import OpenRefused
from tests.contract.replicas import Watch, a_replica, go

pytestmark = [
    pytest.mark.docker,
    pytest.mark.skipif(os.geteuid() != 0, reason="enters network namespaces: needs root"),
]

SERVE = """
import socket, threading

def serve(server):
    while True:
        connection, _ = server.accept()
        connection.sendall(f"{server.getsockname()[0]} of NAME".encode())
        connection.close()

servers = [socket.create_server(("0.0.0.0", 4242)), socket.create_server(("127.0.0.1", 4243))]
for server in servers:
    threading.Thread(target=serve, args=(server,)).start()
print("up", flush=True)
"""


def a_server(runtime, name: str, fence: int):
    replica = a_replica(SERVE.replace("NAME", name), fence=fence)
    go(runtime, replica)
    watch = Watch(runtime)
    watch.says(replica, b"up")
    return replica


def answer(connect, fence: int, port: int) -> str:
    with connect(StreamTarget(fence, 0, port)) as connection:
        connection.settimeout(10)
        return connection.recv(100).decode()


def test_a_port_is_that_of_the_named_replica_and_its_loopback_is_reached(docker_node):
    runtime = docker_node.runtime()
    a_server(runtime, "one", 7)
    a_server(runtime, "two", 8)
    connect = replica_ports(runtime)
    assert answer(connect, 7, 4242) == "0.0.0.0 of one"
    assert answer(connect, 8, 4242) == "0.0.0.0 of two"
    assert answer(connect, 8, 4243) == "127.0.0.1 of two"
    with pytest.raises(OpenRefused) as refused:
        connect(StreamTarget(9, 0, 4242))
    assert refused.value.why == "replica_unknown"
    # A port of the machine is none of the container.
    with socket.create_server(("0.0.0.0", 0)) as server, pytest.raises(OSError):
        connect(StreamTarget(7, 0, server.getsockname()[1]))


def test_an_agent_that_is_not_root_connects_by_the_bridge(docker_node, monkeypatch):
    runtime = docker_node.runtime()
    a_server(runtime, "one", 7)
    called = []
    monkeypatch.setattr(docker_ports.os, "geteuid", lambda: 1_000)
    # The engine of the tests is in a network of its own: host programs reach none of its bridges.
    monkeypatch.setattr(
        docker_ports.socket, "create_connection", lambda *where: called.append(where)
    )
    replica_ports(runtime)(StreamTarget(7, 0, 4242))
    (network,) = docker_node.containers()[0].attrs["NetworkSettings"]["Networks"].values()
    assert called == [((network["IPAddress"], 4242), CONNECT_SECONDS)]


def test_the_engine_is_asked_once_and_a_container_that_has_ended_is_no_target(
    docker_node, monkeypatch
):
    runtime = docker_node.runtime()
    replica = a_server(runtime, "one", 7)
    asked = []
    find = docker_ports.running_container
    monkeypatch.setattr(
        docker_ports, "running_container", lambda *what: asked.append(what) or find(*what)
    )
    connect = replica_ports(runtime)
    for port, address in ((4242, "0.0.0.0"), (4243, "127.0.0.1"), (4242, "0.0.0.0")):
        assert answer(connect, 7, port) == f"{address} of one"
    assert len(asked) == 1
    runtime.stop(replica.id, 0)
    with pytest.raises(OpenRefused) as refused:
        connect(StreamTarget(7, 0, 4242))
    assert refused.value.why == "replica_unknown"
