"""Ports of the tests' servers: two workers never take the same one."""

import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tests.environment.programs import SERVER_PORTS, free_port

ROOT = Path(__file__).resolve().parents[2]
MANY = 40
TAKE = f"""
import sys
from tests.environment import programs
programs.SERVER_PORTS = range(int(sys.argv[1]), int(sys.argv[2]))
print(*(programs.free_port() for _ in range({MANY})), flush=True)
sys.stdin.read()
"""


def test_processes_that_ask_at_once_are_given_different_ports():
    """Of a hundred ports, of which nobody else needs that many."""
    start = SERVER_PORTS.stop
    command = [sys.executable, "-c", TAKE, str(start), str(start + 3 * MANY)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    processes = [subprocess.Popen(command, cwd=ROOT, **pipes) for _ in range(2)]
    ports = [process.stdout.readline().split() for process in processes]
    for process in processes:
        process.communicate()
    assert len({*ports[0], *ports[1]}) == 2 * MANY


def test_a_port_that_has_a_server_is_left_out(monkeypatch):
    with socket.create_server(("127.0.0.1", 0)) as server:
        taken = server.getsockname()[1]
        one = free_port()
        monkeypatch.setattr("tests.environment.programs.SERVER_PORTS", [taken])
        with pytest.raises(RuntimeError, match="no port is free"):
            free_port()
    assert one in SERVER_PORTS
