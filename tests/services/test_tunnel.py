"""Ports of jobs through two web processes, Redis and a real agent: bytes, restarts and rights."""

import hashlib
import os
import re
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.environment.programs import free_port
from tests.services.cli_terminal import NEW_TOKEN, cli_environment, shell
from tests.services.stack import ROOT, Stack, until
from tests.services.two_webs import SERVER, TwoWebs, asks, connect, forwarded

pytestmark = [pytest.mark.services, pytest.mark.slow]
MIB = 1 << 20


@pytest.fixture(scope="module")
def stack(tmp_path_factory, redis_server):
    var = tmp_path_factory.mktemp("tunnel")
    running = TwoWebs(var=var, redis_url=redis_server.url(11), nodes=("node-a",))
    running.agent_addresses = (running.url, running.second_url)
    with running:
        running.start_second()
        yield running


@pytest.fixture
def job(stack):
    """A running job that serves at a port."""
    port = free_port()
    job = stack.submit([sys.executable, "-c", SERVER, str(port)])
    stack.until_status(job, "running")
    until(lambda: "listening" in stack.call("GET", f"/jobs/{job}/logs"), what="its port")
    yield job, port
    stack.call("POST", f"/jobs/{job}/cancel")
    stack.until_status(job, "cancelled")


def resident_bytes(stack: Stack, name: str) -> int:
    status = Path(f"/proc/{stack.running[name].pid}/status").read_text()
    return int(re.search(r"VmRSS:\s+(\d+)", status)[1]) * 1024


def test_100_mb_each_way_through_the_tunnel_of_another_web_process(stack, job, tmp_path):
    own = ("web", "web-b", "node-a")
    with forwarded(stack.second_url, stack.seeded["token"], *job, tmp_path) as (here, _):
        assert asks(here, b"hello\n") == b"hello\n"
        before = {name: resident_bytes(stack, name) for name in own}
        begin = time.monotonic()
        with connect(here) as connection:
            connection.sendall(b"take 100\n")
            connection.shutdown(socket.SHUT_WR)
            expected, found, size = hashlib.sha256(), hashlib.sha256(), 0
            for number in range(100):
                expected.update(bytes([number % 251]) * MIB)
            while piece := connection.recv(MIB):
                found.update(piece)
                size += len(piece)
        assert (size, found.hexdigest()) == (100 * MIB, expected.hexdigest())
        down = time.monotonic()
        with connect(here) as connection:
            connection.sendall(b"give\n")
            for number in range(100):
                connection.sendall(bytes([number % 251]) * MIB)
            connection.shutdown(socket.SHUT_WR)
            assert connection.recv(64).decode() == expected.hexdigest()
        grown = {name: (resident_bytes(stack, name) - before[name]) // MIB for name in own}
        print(f"down {100 / (down - begin):.0f} MiB/s,", end=" ")
        print(f"up {100 / (time.monotonic() - down):.0f} MiB/s, grown by {grown} MiB")
        assert max(grown.values()) < 32


def test_a_stalled_connection_stalls_no_other_and_is_not_kept_in_memory(stack, job, tmp_path):
    with forwarded(stack.second_url, stack.seeded["token"], *job, tmp_path) as (here, _):
        before = resident_bytes(stack, "web")
        with connect(here) as stalled:
            stalled.sendall(b"take 200\n")
            for number in range(20):
                text = f"line {number}\n".encode()
                assert asks(here, text) == text
            assert resident_bytes(stack, "web") - before < 16 * MIB


def test_a_web_process_that_is_killed_costs_its_connections_and_no_more(stack, job, tmp_path):
    with forwarded(stack.second_url, stack.seeded["token"], *job, tmp_path) as (here, _):
        with connect(here) as connection:
            connection.sendall(b"echo\nfirst\n")
            assert connection.recv(100) == b"first\n"
            stack.kill("web")
            with pytest.raises(OSError):
                # Ended by the portal: a reset, or an end without an answer.
                connection.sendall(b"second\n")
                assert not connection.recv(100)
                raise ConnectionResetError
        # The agent has dialed the other process.
        until(lambda: asks(here, b"again\n") == b"again\n", what="the way back")
    stack.start_web()
    with forwarded(stack.url, stack.seeded["token"], *job, tmp_path) as (here, _):
        assert asks(here, b"through the first\n") == b"through the first\n"


@pytest.mark.parametrize(
    ("name", "project", "why"),
    [
        ("mallory", "", "does not exist, or you may not see it"),
        ("rosa", "vision", "Only the owner"),
    ],
)
def test_others_are_refused_with_a_sentence(stack, job, tmp_path, name, project, why):
    token = stack.python(NEW_TOKEN.format(name=name, project=project))
    with (
        pytest.raises(AssertionError, match=why),
        forwarded(stack.url, token, *job, tmp_path),
    ):
        pass


@pytest.mark.parametrize(
    "change",
    [
        "ApiToken.objects.filter(token_key={key!r}).delete()",
        "Membership.objects.filter(user__username='alice').delete()",
        "User.objects.filter(username='alice').update(is_active=False)",
    ],
)
def test_a_connection_ends_within_5_seconds_of_the_right_to_it(stack, job, tmp_path, change):
    token = stack.python(NEW_TOKEN.format(name="alice", project=""))
    imports = "from portal.accounts.models import *\n"
    undo = (
        "user = User.objects.get(username='alice')\n"
        "user.is_active = True\nuser.save()\n"
        "project = Project.objects.get(slug='vision')\n"
        "Membership.objects.get_or_create(user=user, project=project, defaults={'role': 'member'})"
    )
    with forwarded(stack.second_url, token, *job, tmp_path) as (here, process), connect(here) as it:
        it.sendall(b"echo\nhello\n")
        assert it.recv(100) == b"hello\n"
        try:
            stack.python(imports + change.format(key=token[:15]))
            begin = time.monotonic()
            with pytest.raises(OSError):
                assert not it.recv(100)
                raise ConnectionResetError
            assert time.monotonic() - begin < 5
            assert process.wait(60) != 0
            assert "may not use this port any more" in process.stderr.read()
        finally:
            stack.python(imports + undo)


def test_a_program_calls_the_command_through_pipes_as_ssh_does(stack, job, tmp_path):
    words = ("port", job[0], str(job[1]), "--stdio")
    command = [sys.executable, "-m", "portal.cli", *words]
    environ = cli_environment(stack.url, stack.seeded["token"], tmp_path)
    done = subprocess.run(
        command, cwd=ROOT, env=environ, input=b"echo\nhello\n", capture_output=True, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, b"hello\n", b"")


def test_only_ports_of_the_job_itself_are_reached(stack, job, tmp_path):
    """Not one of the machine: here the portal's own, which is on the same loopback."""
    name, _ = job
    with forwarded(stack.url, stack.seeded["token"], name, stack.port, tmp_path) as (here, process):
        assert asks(here, b"x\n") == b""
        assert "Nothing in the job listens at this port" in process.stderr.readline()


def test_who_opened_which_port_is_in_the_audit_trail(stack, job, tmp_path):
    name, port = job
    with forwarded(stack.url, stack.seeded["token"], *job, tmp_path):
        pass
    found = stack.python(
        "from portal.audit.models import AuditEntry\n"
        "row = AuditEntry.objects.filter(action='port_open').latest('pk')\n"
        "print(row.actor, row.noun, row.noun_id, row.after)"
    )
    assert found == f"alice job {name.removeprefix('J-')} {{'rank': 0, 'port': {port}}}"


def move_tunnel_to_first(stack: TwoWebs, job: tuple[str, int], folder: Path) -> None:
    """Wherever the tests before have left it."""
    stack.kill("web-b")
    with forwarded(stack.url, stack.seeded["token"], *job, folder) as (here, _):
        until(lambda: asks(here, b"here\n") == b"here\n", what="the tunnel at the first one")
    stack.start_second()


def test_a_terminal_goes_on_after_the_web_process_that_held_its_tunnel(stack, job, tmp_path):
    move_tunnel_to_first(stack, job, tmp_path)
    name, words = job[0], ["--shell", "/bin/sh"]
    with shell(stack.second_url, stack.seeded["token"], [name, *words], tmp_path) as terminal:
        terminal.type('stty size; echo fi""rst\n')
        terminal.until(b"24 80")
        terminal.type('PS1=@""@:\n')
        terminal.until(b"first")
        terminal.resize(132, 50)
        os.kill(terminal.process.pid, signal.SIGWINCH)
        terminal.type("sh -c 'echo rea\"\"dy; exec sleep 1000'\n")
        terminal.until(b"ready")
        terminal.type("\x03")
        terminal.until(b"^C")
        terminal.until(b"@@:")
        terminal.type("stty size\n")
        terminal.until(b"50 132")
        stack.kill("web")
        terminal.until(b"Attaching again")
        # What was typed while it was away may be lost: this is typed until it has an answer.
        until(lambda: terminal.answers(b"second"), what="the terminal again")
        terminal.type("exit 7\n")
        assert terminal.exit_code() == 7
    stack.start_web()
    found = stack.python(
        "from portal.audit.models import AuditEntry\n"
        "rows = AuditEntry.objects.filter(action='terminal_open')\n"
        "print(set((row.actor, row.noun_id, str(row.after)) for row in rows))"
    )
    assert found == f"{{('alice', '{name.removeprefix('J-')}', \"{{'rank': 0}}\")}}"


def test_a_terminal_says_why_there_is_none_or_why_it_ends(stack, job, tmp_path):
    name = job[0]
    token = stack.python(NEW_TOKEN.format(name="alice", project=""))
    with shell(stack.url, token, [name, "--shell", "/bin/none"], tmp_path) as terminal:
        assert terminal.exit_code() == 1
        assert b"no such shell" in terminal.shown
    with shell(stack.url, token, [name, "--rank", "5"], tmp_path) as terminal:
        assert terminal.exit_code() == 3
    with shell(stack.url, token, [name, "--shell", "/bin/sh"], tmp_path) as terminal:
        terminal.type('echo fi""rst\n')
        terminal.until(b"first")
        stack.python(
            "from portal.accounts.models import ApiToken\n"
            f"ApiToken.objects.filter(token_key={token[:15]!r}).delete()"
        )
        begin = time.monotonic()
        terminal.until(b"You may not use this terminal any more")
        assert time.monotonic() - begin < 5
        assert terminal.exit_code() == 4
