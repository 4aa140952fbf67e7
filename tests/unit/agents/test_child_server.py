"""The server that forks the parent processes of replicas: what parents have of it, and its end."""

import os
import shutil
import signal
import stat
import time
from contextlib import suppress
from pathlib import Path

import pytest

from agents.contract.documents import Rendezvous
from agents.runtime.base import ContainerPhase
from agents.runtime.child_server import ChildServer
from agents.runtime.process import ProcessRuntime
from tests.unit.agents.documents import a_replica

MEETING = Rendezvous("127.0.0.1", 29_500)
SECONDS = 300  # a bound for what never comes; nothing waits so long


@pytest.fixture
def runtime(tmp_path):
    runtime = ProcessRuntime(tmp_path / "replicas")
    yield runtime
    for replica in runtime.containers():
        runtime.stop(replica, 0)
    runtime.close()


def a_program(name, *command):
    return a_replica(id=name, command=command, launcher="none", devices=(), processes=1)


def parent_of(runtime, replica):
    return runtime.containers()[replica.id].leader


def server_of(parent):
    return int(Path(f"/proc/{parent}/stat").read_text().rpartition(")")[2].split()[1])


def until(found, what):
    end = time.monotonic() + SECONDS
    while not found():
        assert time.monotonic() < end, f"{what} did not happen"
        time.sleep(0.005)


def started(runtime, replica):
    """Its parent process, which may have ended by now."""
    parent = prepared(runtime, replica)
    runtime.start(replica, (), MEETING)
    return parent


def prepared(runtime, replica):
    """Its parent process, which waits."""
    runtime.prepare(replica, ())
    return parent_of(runtime, replica)


def ended(runtime, replica):
    has_ended = lambda: runtime.containers()[replica.id].phase is ContainerPhase.EXITED  # noqa: E731
    until(has_ended, f"the end of {replica.id}")
    return runtime.containers()[replica.id].exit_code


def opened(process):
    """The files that it has open; it may close one while this looks."""
    found = set()
    for link in (process / "fd").iterdir():
        with suppress(FileNotFoundError):
            found.add(str(link.readlink()))
    return found


def is_gone(pid):
    """Not even a zombie."""
    return not Path(f"/proc/{pid}").exists()


def test_one_server_starts_the_parents_of_all_replicas_and_lets_go_of_those_that_ended(runtime):
    replicas = [a_program(f"r-{number}", "sh", "-c", f"exit {number}") for number in range(3)]
    parents = []
    for replica in replicas:
        runtime.prepare(replica, ())
        parents.append(parent_of(runtime, replica))
    assert len({server_of(parent) for parent in parents}) == 1
    for replica in replicas:
        runtime.start(replica, (), MEETING)
    assert [ended(runtime, replica) for replica in replicas] == [0, 1, 2]
    until(lambda: all(map(is_gone, parents)), "the end of the parents without zombies")


def test_a_parent_has_no_environment_and_no_file_of_the_agent(runtime, tmp_path, monkeypatch):
    monkeypatch.setenv("TESSERA_JOIN_TOKEN", "a secret")
    with (tmp_path / "journal").open("w") as journal:
        os.set_inheritable(journal.fileno(), True)
        replica = a_program("r-1", "sleep", "600")
        runtime.prepare(replica, ())
        parent = Path(f"/proc/{parent_of(runtime, replica)}")
        gate = str(runtime.home / "r-1" / "gate")
        until(lambda: opened(parent) == {"/dev/null", gate}, "a parent with its gate only")
    assert (parent / "environ").read_bytes() == b""


def test_a_parent_leads_a_session_of_its_own_and_keeps_the_agents_umask(runtime):
    before = os.umask(0o077)
    try:
        replica = a_program("r-1", "sh", "-c", "touch made")
        parent = prepared(runtime, replica)
        assert os.getsid(parent) == os.getpgid(parent) == parent != os.getsid(0)
        runtime.start(replica, (), MEETING)
        assert ended(runtime, replica) == 0
    finally:
        os.umask(before)
    made = runtime.workspaces.folders("r-1").scratch / "made"
    assert stat.S_IMODE(made.stat().st_mode) == 0o600


def test_the_server_ends_with_the_agent_and_replicas_go_on(runtime):
    replica = a_program("r-1", "sh", "-c", f"read line < {runtime.home}/r-1/gate; exit 7")
    parent = started(runtime, replica)
    server = server_of(parent)
    runtime.close()
    assert is_gone(server)
    adopted = ProcessRuntime(runtime.home)
    assert adopted.containers()["r-1"].phase is ContainerPhase.RUNNING
    (runtime.home / "r-1" / "gate").write_text("go\n")
    assert ended(adopted, replica) == 7


def test_a_server_that_was_killed_is_replaced_and_what_it_started_goes_on(runtime):
    first = a_program("r-1", "sh", "-c", f"read line < {runtime.home}/r-1/gate; exit 3")
    second = a_program("r-2", "sh", "-c", "exit 4")
    parent = started(runtime, first)
    os.kill(server_of(parent), signal.SIGKILL)
    started(runtime, second)
    assert ended(runtime, second) == 4
    (runtime.home / "r-1" / "gate").write_text("go\n")
    assert ended(runtime, first) == 3


def test_a_server_that_is_not_closed_ends_as_soon_as_nobody_can_use_it(tmp_path):
    server, home = ChildServer(tmp_path), tmp_path / "waits"
    home.mkdir()
    os.mkfifo(home / "gate", 0o600)
    process = server_of(server.start_parent(home))
    del server
    until(lambda: is_gone(process), "the end of the server")
    # Its parent process ends with its folder.
    shutil.rmtree(home)
