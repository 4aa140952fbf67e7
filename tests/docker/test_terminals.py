"""Terminals in containers of a real engine: the job's user and limits, keys, cuts, their end."""

import asyncio

import pytest

from agents.contract.terminal import TerminalEnd
from agents.contract.tunnel import StreamRefusal
from agents.runtime.docker_exec import MARK
from agents.runtime.grants import Grant
from agents.terminals.node_terminals import NodeTerminals
from agents.terminals.replica_terminals import end_leftovers, replica_terminals
from agents.tunnel.link import OpenRefused
from tests.contract.replicas import UNTIL_TOLD, Watch, a_replica, go
from tests.unit.agents.terminal_clients import a_target, node

pytestmark = [pytest.mark.docker, pytest.mark.slow]


@pytest.fixture
def runtime(docker_node):
    return docker_node.runtime()


@pytest.fixture
def replica(runtime):
    replica = a_replica(UNTIL_TOLD, fence=7, env={"EPOCHS": "3"})
    go(runtime, replica)
    Watch(runtime).says(replica, b"ready")
    return replica


def a_terminal(**fields):
    return a_target(**{"attempt": 7} | fields)


def with_node(runtime, test, **options):
    async def run():
        terminals = NodeTerminals(replica_terminals(runtime), **options)
        async with node(terminals) as attach:
            await test(attach)

    asyncio.run(run())


def commands(container) -> list[str]:
    return [row[-1] for row in container.top(ps_args="-eo pid,args")["Processes"]]


async def gone(container, words: str) -> None:
    """Wait until no process of the container has these words in its command."""
    while any(words in each for each in commands(container)):
        await asyncio.sleep(0.05)


def test_a_shell_of_the_jobs_own_user_with_its_keys_and_sizes(docker_node, runtime, replica):
    container = docker_node.container(replica)

    async def test(attach):
        client = await attach(a_terminal(columns=100, rows=30))
        await client.type('PS1=@""@:\n')
        await client.until(b"@@:")
        await client.type("stty size; echo [$EPOCHS $(id -u) $(hostname)]\n")
        await client.until(b"30 100")
        await client.until(b"[3 ")
        told = (await client.until(b"]")).decode()
        user = container.attrs["Config"]["User"].partition(":")[0]
        assert told == f"{user} {container.attrs['Config']['Hostname']}]"
        await client.type("grep -c CapEff:.*0000000000000000 /proc/self/status\n")
        await client.until(b"\n1")
        await client.resize(132, 50)
        await client.type("stty size\n")
        await client.until(b"50 132")
        await client.type("sh -c 'echo rea\"\"dy; exec sleep 1000'\n")
        await client.until(b"ready\r\n")
        await client.type("\x03")
        await client.until(b"^C")
        await client.until(b"@@:")
        await client.type('echo st""ill $?\n')
        await client.until(b"still 130")
        client.stream.abort()
        client = await attach(a_terminal(is_new=False))
        await client.until(b"still 130")
        await client.type("exit 7\n")
        assert await client.until_end() == (TerminalEnd.EXITED, 7)
        with pytest.raises(OpenRefused) as refused:
            await attach(a_terminal(terminal="f" * 32, program="/bin/none"))
        assert refused.value.why is StreamRefusal.SHELL_MISSING

    with_node(runtime, test)


def test_what_it_started_ends_with_it_and_the_job_goes_on(docker_node, runtime, replica):
    container = docker_node.container(replica)
    detach = 'setsid sh -c \'trap "" HUP TERM; echo u""p; sleep 4321\' &\n'

    async def test(attach):
        for way in ("hang up", "nobody comes back"):
            client = await attach(a_terminal(terminal=f"{len(way):032x}"))
            await client.type(detach)
            await client.until(b"up\r\n")
            assert any("4321" in each for each in commands(container))
            if way == "hang up":
                await client.hang_up()
                await client.until_end()
            else:
                client.stream.abort()
            await gone(container, "4321")

    with_node(runtime, test, keep_seconds=0.05)
    container.reload()
    assert container.status == "running"


def test_an_agent_that_starts_ends_what_a_killed_one_left(docker_node, runtime, replica):
    container = docker_node.container(replica)
    api = docker_node.client.api
    left = api.exec_create(
        container.id, ["sleep", "4321"], environment={MARK: "0"}, stdin=True, tty=True
    )
    connection = api.exec_start(left["Id"], tty=True, socket=True)
    # An exec that is not a terminal of ours stays.
    other = api.exec_create(container.id, ["sleep", "1234"])
    api.exec_start(other["Id"], detach=True)
    Watch(runtime).until(lambda: {"sleep 4321", "sleep 1234"} <= set(commands(container)), "both")
    end_leftovers(docker_node.runtime())
    left_over = commands(container)
    assert "sleep 4321" not in left_over
    assert "sleep 1234" in left_over
    connection._sock.close()
    connection.close()


def test_an_agent_that_starts_ends_what_an_exec_left_that_has_ended(docker_node, runtime, replica):
    """As what a session of SSH started: its server ends with the agent's connection."""
    container = docker_node.container(replica)
    leave = "setsid sleep 4321 >/dev/null 2>&1 </dev/null &"
    container.exec_run(["sh", "-c", leave], environment={MARK: "0"})
    Watch(runtime).until(lambda: "sleep 4321" in commands(container), "what is left")
    end_leftovers(docker_node.runtime())
    assert "sleep 4321" not in commands(container)


def test_the_end_of_the_job_ends_it(docker_node, runtime, replica):
    async def test(attach):
        client = await attach(a_terminal())
        await client.type('echo rea""dy\n')
        await client.until(b"ready")
        await asyncio.to_thread(runtime.stop, replica.id, 5)
        assert (await client.until_end())[0] is TerminalEnd.EXITED
        with pytest.raises(OpenRefused) as refused:
            await attach(a_terminal(terminal="f" * 32))
        assert refused.value.why is StreamRefusal.REPLICA_UNKNOWN

    with_node(runtime, test)


def test_the_shell_gets_what_the_wrapper_gives_the_command(docker_node):
    """As secrets in variables come to the job."""
    wrapper = ("/bin/sh", "-c", 'export GIVEN=secret; exec "$0" "$@"')
    runtime = docker_node.runtime(grant=lambda replica, devices: Grant(wrapper=wrapper))
    replica = a_replica(UNTIL_TOLD, fence=7)
    go(runtime, replica)
    Watch(runtime).says(replica, b"ready")

    async def test(attach):
        client = await attach(a_terminal())
        await client.type("echo [$GIVEN]\n")
        await client.until(b"[secret]")

    with_node(runtime, test)
