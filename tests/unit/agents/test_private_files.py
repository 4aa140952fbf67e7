"""Finding 2.5 of the security review: others read nothing on a node's disk."""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from agents.host.private_files import FolderExposed, make_agent_folder
from agents.runtime.docker_log_copies import LogCopies
from agents.runtime.process import ProcessRuntime
from agents.simdriver.state import new_node
from agents.simdriver.store import Store
from agents.state.journal import Journal
from portal.demo.private_folder import close_folder
from tests.environment.programs import free_port
from tests.unit.agents.documents import a_desired, a_replica

ROOT = Path(__file__).parents[3]
NOBODY = 65_534
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can act as another user")


@pytest.fixture
def shared_folder():
    """A folder that everybody can enter, unlike pytest's own."""
    folder = Path(tempfile.mkdtemp(prefix="tessera-shared-"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


def readable_by_nobody(folder):
    """What uid 65534 can read, even if it knows every name."""
    paths = [at for at in (folder, *folder.rglob("*")) if not at.is_fifo()]
    ours, theirs = os.pipe()
    child = os.fork()
    if child == 0:
        os.setgroups([])
        os.setgid(NOBODY)
        os.setuid(NOBODY)
        os.write(theirs, "\n".join(str(at) for at in paths if is_readable(at)).encode())
        os._exit(0)
    os.close(theirs)
    with os.fdopen(ours) as pipe:
        found = pipe.read().splitlines()
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    return found


def is_readable(path):
    try:
        list(path.iterdir()) if path.is_dir() else path.read_bytes()
    except OSError:
        return False
    return True


def an_agent(folder, *arguments):
    """A real agent with a simulated driver and a portal that is away."""
    state = folder / "driver.json"
    if not state.exists():
        Store(state).create(new_node(board="H200-141GB", gpus=1, seed=7, latency=False))
        state.chmod(0o600)
    return subprocess.Popen(
        [sys.executable, "-m", "agents", "run", *arguments],
        cwd=ROOT,
        env={
            "PATH": os.environ["PATH"],
            "TESSERA_SIMULATED_DRIVER": str(state),
            "TESSERA_JOIN_TOKEN": "token",
            "TESSERA_RUNTIME": "process",
            "TESSERA_PORTAL_URL": f"http://127.0.0.1:{free_port()}",
        },
        stderr=subprocess.PIPE,
        text=True,
        umask=0o022,
    )


@needs_root
def test_another_user_reads_nothing_that_an_agent_wrote(shared_folder):
    var = shared_folder / "node" / "agent"
    agent = an_agent(shared_folder, "--var", str(var))
    try:
        assert "portal_away" in agent.stderr.readline()
    finally:
        agent.kill()
        agent.communicate()
    assert {"key", "journal.sqlite3", "lock"} <= {at.name for at in var.iterdir()}
    assert readable_by_nobody(var) == []


@needs_root
def test_another_user_reads_no_log_and_no_journal(shared_folder):
    """Also not what an earlier version left open."""
    before = os.umask(0o022)
    try:
        for name in ("logs", "replicas", "replicas/r-1"):
            (shared_folder / name).mkdir()
        for name in ("logs/r-1.log", "replicas/r-1/log", "journal.sqlite3"):
            (shared_folder / name).touch()
        journal = Journal(shared_folder / "journal.sqlite3")
        journal.store_desired(a_desired(replicas=(a_replica(),)))
        LogCopies(shared_folder / "logs", lambda: None)
        ProcessRuntime(shared_folder / "replicas")
        assert readable_by_nobody(shared_folder) == [str(shared_folder)]
        journal.close()
    finally:
        os.umask(before)


@pytest.mark.parametrize("mode", [0o755, 0o750, 0o710 | 0o004, 0o722])
def test_an_agent_does_not_start_where_others_can_read(tmp_path, mode):
    var = tmp_path / "agent"
    var.mkdir()
    var.chmod(mode)
    agent = an_agent(tmp_path, "--var", str(var))
    try:
        _, words = agent.communicate(timeout=300)
    finally:
        agent.kill()
    assert agent.returncode == 1
    assert f"sudo chmod 711 {var}" in words
    assert list(var.iterdir()) == []


def test_after_the_command_of_the_refusal_it_starts(tmp_path):
    tmp_path.chmod(0o755)
    with pytest.raises(FolderExposed) as refused:
        make_agent_folder(tmp_path)
    command = str(refused.value).rpartition(": ")[2].removeprefix("sudo ")
    subprocess.run(command.split(), check=True)
    make_agent_folder(tmp_path)


@needs_root
def test_a_folder_of_another_user_is_refused_with_both_commands(tmp_path):
    os.chown(tmp_path, NOBODY, NOBODY)
    with pytest.raises(FolderExposed, match=r"chown 0 .* && sudo chmod 711 "):
        make_agent_folder(tmp_path)


@needs_root
def test_the_demonstration_closes_what_an_earlier_version_left_open(shared_folder):
    (shared_folder / "nodes" / "node-a" / "agent").mkdir(parents=True)
    for name in ("tessera.sqlite3", "tessera.sqlite3-wal", "nodes/node-a/agent/journal.sqlite3"):
        (shared_folder / name).touch(mode=0o644)
    close_folder(shared_folder)
    assert readable_by_nobody(shared_folder) == []
    make_agent_folder(shared_folder / "nodes" / "node-a" / "agent")


def test_the_demonstration_leaves_a_folder_with_other_things_as_it_was(shared_folder):
    for name in ("tessera.sqlite3", "letter.txt"):
        (shared_folder / name).touch()
    close_folder(shared_folder)
    modes = {at.name: at.stat().st_mode & 0o777 for at in shared_folder.iterdir()}
    assert modes == {"tessera.sqlite3": 0o600, "letter.txt": 0o644}
    assert shared_folder.stat().st_mode & 0o777 == 0o755
