"""Which ports of a machine count as a replica's: those on which its own processes listen."""

import os
import socket
import subprocess
import sys
from contextlib import contextmanager

import pytest

from agents.contract.tunnel import StreamRefusal, StreamTarget
from agents.host import socket_table
from agents.host.listening import find_listening_socket, still_listens
from agents.ports.replica_ports import CONNECT_SECONDS, replica_ports
from agents.runtime.process import ProcessRuntime
from agents.tunnel.link import OpenRefused
from tests.contract.replicas import Watch, a_replica, go
from tests.environment.programs import free_port

LISTEN = """
import socket, sys
server = socket.socket(socket.AF_INET6 if ":" in sys.argv[1] else socket.AF_INET)
server.bind((sys.argv[1], 0))
server.listen()
print(server.getsockname()[1], flush=True)
sys.stdin.read()
"""
# Listens until somebody connects, then no more, and goes on.
LISTEN_ONCE = """
import signal, socket
with socket.create_server(("127.0.0.1", PORT)) as server:
    print("up", flush=True)
    server.accept()[0].close()
    server.accept()[0].close()
print("over", flush=True)
signal.pause()
"""


@pytest.fixture(params=["the kernel", "/proc"])
def socket_source(request, monkeypatch):
    """Who tells which sockets listen."""
    asks = request.param == "the kernel"
    if asks and not socket_table._kernel_answers():
        pytest.skip("this kernel has no sock_diag")
    monkeypatch.setattr(socket_table, "_kernel_answers", lambda: asks)


@contextmanager
def listening(address):
    """A process that listens there: its id and its port."""
    command = [sys.executable, "-c", LISTEN, address]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        yield process.pid, int(process.stdout.readline())
        process.stdin.close()


@pytest.mark.parametrize(
    ("address", "reached"),
    [
        ("127.0.0.1", "127.0.0.1"),
        ("127.0.0.2", "127.0.0.2"),
        ("0.0.0.0", "127.0.0.1"),
        ("::1", "::1"),
        ("::", "127.0.0.1"),
    ],
)
@pytest.mark.usefixtures("socket_source")
def test_a_process_is_reached_where_it_listens(address, reached):
    with listening(address) as (pid, port):
        found = find_listening_socket([pid], port)
        assert found.address == reached
        assert still_listens(found, port)
        socket.create_connection((reached, port), CONNECT_SECONDS).close()
    assert not still_listens(found, port)


@pytest.mark.usefixtures("socket_source")
def test_a_port_of_another_process_is_none_of_the_replica():
    with listening("127.0.0.1") as (pid, port):
        assert find_listening_socket([os.getpid()], port) is None
        assert find_listening_socket([], port) is None
        assert find_listening_socket([pid], port + 1) is None


@pytest.mark.usefixtures("socket_source")
def test_a_connection_that_the_replica_made_is_no_port_of_it():
    """Its own end of one has a port as well, which it does not listen at."""
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        socket.create_connection(server.getsockname()) as client,
    ):
        assert find_listening_socket([os.getpid()], client.getsockname()[1]) is None


@pytest.mark.usefixtures("socket_source")
def test_a_socket_that_listens_no_more_is_no_port_though_it_is_open_and_another_one_listens():
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        found = find_listening_socket([os.getpid()], port)
        assert still_listens(found, port)
        server.shutdown(socket.SHUT_RDWR)
        assert not still_listens(found, port)
        with socket.create_server(("127.0.0.1", port)):
            assert not still_listens(found, port)


@pytest.mark.usefixtures("socket_source")
def test_a_socket_that_its_process_has_closed_is_none_of_it_though_another_one_has_it_open():
    server = socket.create_server(("127.0.0.1", 0))
    port = server.getsockname()[1]
    found = find_listening_socket([os.getpid()], port)
    wait = [sys.executable, "-c", "import sys; sys.stdin.read()"]
    with subprocess.Popen(wait, stdin=subprocess.PIPE, pass_fds=[server.fileno()]) as other:
        server.close()
        assert find_listening_socket([other.pid], port) is not None
        assert not still_listens(found, port)
        other.stdin.close()


def test_the_processes_of_a_replica_are_searched_once_and_its_port_is_never_anothers(
    tmp_path, monkeypatch
):
    runtime = ProcessRuntime(tmp_path / "replicas")
    port = free_port()
    replica = a_replica(LISTEN_ONCE.replace("PORT", str(port)), fence=7)
    go(runtime, replica)
    searches = []
    processes = runtime.processes
    monkeypatch.setattr(
        runtime, "processes", lambda replica_id: searches.append(1) or processes(replica_id)
    )
    try:
        watch = Watch(runtime)
        watch.says(replica, b"up")
        connect, target = replica_ports(runtime), StreamTarget(7, 0, port)
        for _ in range(2):
            connect(target).close()
        assert len(searches) == 1
        watch.says(replica, b"over")
        with (
            socket.create_server(("127.0.0.1", port)),
            pytest.raises(OpenRefused) as refused,
        ):
            connect(target)
        assert refused.value.why is StreamRefusal.PORT_CLOSED
    finally:
        runtime.stop(replica.id, 0)
    with pytest.raises(OpenRefused) as refused:
        connect(target)
    assert refused.value.why is StreamRefusal.REPLICA_UNKNOWN
    runtime.close()
