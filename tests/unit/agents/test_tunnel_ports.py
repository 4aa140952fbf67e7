"""Which ports of a machine count as a replica's: those on which its own processes listen."""

import os
import socket
import subprocess
import sys
from contextlib import contextmanager

import pytest

from agents.host.listening import listening_address
from agents.ports.replica_ports import CONNECT_SECONDS

LISTEN = """
import socket, sys
server = socket.socket(socket.AF_INET6 if ":" in sys.argv[1] else socket.AF_INET)
server.bind((sys.argv[1], 0))
server.listen()
print(server.getsockname()[1], flush=True)
sys.stdin.read()
"""


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
def test_a_process_is_reached_where_it_listens(address, reached):
    with listening(address) as (pid, port):
        assert listening_address([pid], port) == reached
        socket.create_connection((reached, port), CONNECT_SECONDS).close()


def test_a_port_of_another_process_is_none_of_the_replica():
    with listening("127.0.0.1") as (pid, port):
        assert listening_address([os.getpid()], port) == ""
        assert listening_address([], port) == ""
        assert listening_address([pid], port + 1) == ""


def test_a_connection_that_the_replica_made_is_no_port_of_it():
    """Its own end of one has a port as well, which it does not listen at."""
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        socket.create_connection(server.getsockname()) as client,
    ):
        assert listening_address([os.getpid()], client.getsockname()[1]) == ""
