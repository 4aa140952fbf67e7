"""Terminals in plain processes: real shells on real pseudoterminals, through a tunnel in memory."""

import asyncio
import os
import select
import signal
import subprocess
import sys
import textwrap
from dataclasses import replace
from pathlib import Path

import pytest

from agents.contract.terminal import TerminalEnd
from agents.contract.tunnel import StreamRefusal
from agents.runtime.process import ProcessRuntime
from agents.terminals.node_terminals import NodeTerminals
from agents.terminals.replica_terminals import replica_terminals
from agents.tunnel.link import OpenRefused
from tests.contract.replicas import UNTIL_TOLD, Watch, a_replica, go
from tests.unit.agents.terminal_clients import a_target, node

MIB = 1 << 20


@pytest.fixture
def runtime(tmp_path):
    runtime = ProcessRuntime(tmp_path / "replicas")
    yield runtime
    for replica in runtime.containers():
        runtime.stop(replica, 0)
        runtime.remove(replica)
    runtime.close()


@pytest.fixture
def replica(runtime):
    """One that runs, with fence 7."""
    replica = a_replica(UNTIL_TOLD, fence=7, env={"EPOCHS": "3"})
    go(runtime, replica)
    Watch(runtime).says(replica, b"ready")
    return replica


def a_terminal(**fields):
    return a_target(**{"attempt": 7, "program": "/bin/sh"} | fields)


def with_node(runtime, test, **options):
    async def run():
        terminals = NodeTerminals(replica_terminals(runtime), **options)
        async with node(terminals) as attach:
            await test(attach)

    asyncio.run(run())


def ended(pid: int, seconds: float = 60) -> bool:
    """Wait until the process has ended; it may be one of another parent."""
    try:
        pidfd = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        return bool(select.select([pidfd], [], [], seconds)[0])
    finally:
        os.close(pidfd)


@pytest.mark.parametrize("shell", ["/bin/sh", "/bin/bash"])
def test_ctrl_c_ends_the_program_and_the_exit_code_is_the_shells(runtime, replica, shell):
    async def test(attach):
        client = await attach(a_terminal(program=shell))
        # A shell that takes itself for a script ends with its program.
        await client.type('case $- in *i*) echo inter""active;; esac\n')
        await client.until(b"interactive")
        await client.type('PS1=@""@:\n')
        await client.until(b"@@:")
        await client.type("sh -c 'echo rea\"\"dy; exec sleep 1000'\n")
        await client.until(b"ready\r\n")
        await client.type("\x03")
        # What is typed while a program dies may be lost with it.
        await client.until(b"^C")
        await client.until(b"@@:")
        await client.type('echo st""ill $?\n')
        await client.until(b"still 130")
        await client.type("exit 7\n")
        assert await client.until_end() == (TerminalEnd.EXITED, 7)

    with_node(runtime, test)


def test_its_size_is_the_clients_and_follows_it(runtime, replica):
    async def test(attach):
        client = await attach(a_terminal(columns=100, rows=30))
        await client.type("stty size\n")
        await client.until(b"30 100")
        await client.type('trap \'echo chan""ged\' WINCH; echo rea""dy\n')
        await client.until(b"ready\r\n")
        await client.resize(132, 50)
        # A shell looks at its traps between two commands.
        await client.type("stty size\n")
        await client.until(b"changed")
        await client.type("stty size\n")
        await client.until(b"50 132")

    with_node(runtime, test)


def test_the_shell_is_where_the_replica_is_with_its_environment(runtime, replica):
    async def test(attach):
        client = await attach(a_terminal())
        await client.type('echo to""ld=$EPOCHS:$TERM:$(pwd -P):$(id -u):$(ulimit -c)\n')
        await client.until(b"told=")
        line = (await client.until(b"\r\n")).decode().strip()
        epochs, term, folder, user, core = line.split(":")
        assert (epochs, term, user, core) == ("3", "xterm-256color", str(os.geteuid()), "0")
        assert Path(folder).is_relative_to(runtime.workspaces.root.resolve())
        # What listens there or uses a GPU counts as the replica's.
        await client.type('echo pi""d=$$\n')
        await client.until(b"pid=")
        shell = int(await client.until(b"\r\n"))
        assert shell in runtime.processes(replica.id)

    with_node(runtime, test)
    assert not runtime.terminals


def test_attached_again_it_shows_its_screen_and_goes_on(runtime, replica):
    async def test(attach):
        client = await attach(a_terminal())
        await client.type('echo be""fore\n')
        await client.until(b"before")
        client.stream.abort()
        client = await attach(a_terminal(is_new=False, received=client.received))
        await client.type('echo af""ter\n')
        assert b"before" not in await client.until(b"after")
        client = await attach(a_terminal(is_new=False))
        screen = await client.until(b"after")
        assert b"before" in screen

    with_node(runtime, test)


def test_output_is_whole_for_a_client_that_reads_slowly(runtime, replica, size=3 * MIB):
    async def test(attach):
        client = await attach(a_terminal())
        await client.type(f"head -c {size} /dev/zero | tr '\\0' Z; echo do\"\"ne\n")
        await client.until(b"\n")
        count, pauses = 0, 0
        while b"done" not in client.shown:
            assert await client.step()
            count += client.shown.count(b"Z")
            client.shown = client.shown.replace(b"Z", b"")
            if pauses < 20:
                pauses += 1
                await asyncio.sleep(0.01)
        assert count - size in (0, 1)  # The echo of the command has one as well.

    with_node(runtime, test)


@pytest.mark.slow
def test_100_mb_are_whole_as_well(runtime, replica):
    test_output_is_whole_for_a_client_that_reads_slowly(runtime, replica, size=100 * MIB)


# Starts a process that is in no session and no family of the shell any more.
DETACH = 'setsid sh -c \'trap "" HUP TERM; echo pi""d=$$; sleep 1000\' &\n'


async def detached(client) -> int:
    await client.type(DETACH)
    await client.until(b"pid=")
    return int(await client.until(b"\r\n"))


@pytest.mark.parametrize(
    "way",
    [
        "the job ends",
        pytest.param("exit", marks=pytest.mark.slow),
        pytest.param("hang up", marks=pytest.mark.slow),
        pytest.param("nobody comes back", marks=pytest.mark.slow),
    ],
)
def test_nothing_is_left_behind_however_it_ends(runtime, replica, way):
    pids = []

    async def test(attach):
        client = await attach(a_terminal())
        pids.append(await detached(client))
        assert pids[0] in runtime.processes(replica.id)
        match way:
            case "exit":
                await client.type("exit\n")
                await client.until_end()
            case "hang up":
                await client.hang_up()
                await client.until_end()
            case "nobody comes back":
                client.stream.abort()
            case "the job ends":
                await asyncio.to_thread(runtime.stop, replica.id, 5)
                assert (await client.until_end())[0] is TerminalEnd.EXITED
        assert await asyncio.to_thread(ended, pids[0])

    with_node(runtime, test, keep_seconds=0.05)


AGENT = """
    import asyncio, os, sys
    from pathlib import Path
    from agents.runtime.process import ProcessRuntime
    from agents.runtime.process_terminal import open_process_terminal

    async def run():
        runtime = ProcessRuntime(Path(sys.argv[1]))
        terminal = open_process_terminal(runtime, sys.argv[2], "/bin/sh", 80, 24)
        await terminal.write(b'sleep 1000 & echo pi""d=$!; wait\\n')
        printed = b""
        while not printed.rpartition(b"pid=")[2].endswith(b"\\r\\n") or b"pid=" not in printed:
            printed += await terminal.read()
        print(int(printed.rpartition(b"pid=")[2]), flush=True)
        await asyncio.Event().wait()

    asyncio.run(run())
"""


def test_an_agent_that_is_killed_leaves_no_terminal(runtime, replica):
    command = [sys.executable, "-c", textwrap.dedent(AGENT), str(runtime.home), replica.id]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as agent:
        pid = int(agent.stdout.readline())
        os.kill(agent.pid, signal.SIGKILL)
    assert ended(pid)
    assert runtime.leader(replica.id)


def test_only_a_replica_that_runs_here_and_a_shell_that_is_there(runtime, replica):
    async def test(attach):
        for target, why in (
            (a_terminal(attempt=8), StreamRefusal.REPLICA_UNKNOWN),
            (a_terminal(rank=1), StreamRefusal.REPLICA_UNKNOWN),
            (a_terminal(program="/bin/no-such-shell"), StreamRefusal.SHELL_MISSING),
            (a_terminal(is_new=False), StreamRefusal.TERMINAL_GONE),
        ):
            with pytest.raises(OpenRefused) as refused:
                await attach(target)
            assert refused.value.why is why
        runtime.stop(replica.id, 5)
        with pytest.raises(OpenRefused) as refused:
            await attach(a_terminal())
        assert refused.value.why is StreamRefusal.REPLICA_UNKNOWN

    with_node(runtime, test)


def test_no_descriptor_is_left_open(runtime, replica):
    def count():
        return len(list(Path("/proc/self/fd").iterdir()))

    async def test(attach):
        async def one(number):
            client = await attach(a_terminal(terminal=f"{number:032x}"))
            await client.type("exit\n")
            await client.until_end()

        await one(1)
        with pytest.raises(OpenRefused):
            await attach(replace(a_terminal(), program="/bin/no-such-shell"))
        while runtime.terminals:
            await asyncio.sleep(0.01)
        before = count()
        for number in range(2, 5):
            await one(number)
        while runtime.terminals:
            await asyncio.sleep(0.01)
        assert count() <= before

    with_node(runtime, test)
