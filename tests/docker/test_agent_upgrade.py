"""An upgrade of the agent while jobs and MPS shares run, as systemd would do it by the unit that is
installed: SIGTERM to the main process, other code in its place, the same command again.

The whole product on a real engine; the driver and its MPS programs are simulated."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import sqlite3
import stat
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from agents.mps.control import PID_FILE, MpsControl
from agents.mps.support import control_program
from agents.service.installation import ENVIRONMENT, UNIT
from tests.benchmarks.adoption import portal_log
from tests.environment.docker_engine import engine_client
from tests.services.stack import ROOT, Stack, until
from tests.support.unit_files import command_words, environment, unit_sections

pytestmark = [pytest.mark.docker, pytest.mark.slow]

NODE = "node-a"
# Counts until SIGTERM, then prints a last line.
COUNT = """
import itertools, signal, time
ended = []
signal.signal(signal.SIGTERM, lambda *_: ended.append(True))
for number in itertools.count():
    if ended:
        break
    print(number, flush=True)
    time.sleep(0.02)
print("saved", flush=True)
"""


@dataclass
class InstalledNode(Stack):
    """A stack whose agent is installed by `install-service`, below a folder that is its machine."""

    @property
    def machine(self) -> Path:
        return self.var / "machine"

    @property
    def checkout(self) -> Path:
        return self.machine / "opt" / "tessera"

    def start_agent(self, name: str) -> None:
        state = self.var / "nodes" / name / "driver.json"
        if not state.exists():
            state.parent.mkdir(parents=True)
            create = ("create", "--path", str(state), "--board", self.board)
            self.manage_program("agents.simdriver", *create, "--gpus", str(self.gpus))
            self.place_code()
            self._install(name, state)
        self._start_unit(name)

    def place_code(self) -> None:
        """As an upgrade does: nothing of the code that was there is left."""
        shutil.rmtree(self.checkout, ignore_errors=True)
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(ROOT / "agents", self.checkout / "agents", ignore=ignored)

    def _install(self, name: str, state: Path) -> None:
        arguments = ("--portal", self.url, "--name", name, "--root", str(self.machine))
        folder = ("--var", str(self.var / "nodes" / name / "agent"))
        subprocess.run(
            [sys.executable, "-m", "agents", "install-service", *arguments, *folder],
            cwd=self.checkout,
            env={
                "PATH": os.environ["PATH"],
                "DOCKER_HOST": self.docker_url,
                "TESSERA_JOIN_TOKEN": self.seeded["join"][name],
                "TESSERA_SIMULATED_DRIVER": str(state),
            },
            check=True,
        )

    @property
    def service(self) -> dict[str, str]:
        return unit_sections((self.machine / UNIT).read_text())["Service"]

    def _start_unit(self, name: str) -> None:
        service = self.service
        variables = environment((self.machine / ENVIRONMENT).read_text())
        with (self.var / f"{name}.log").open("ab") as log:
            self.running[name] = subprocess.Popen(
                command_words(service["ExecStart"]),
                cwd=service["WorkingDirectory"],
                env={"PATH": os.environ["PATH"], **variables},
                umask=int(service["UMask"], 8),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def stop_unit(self, name: str) -> None:
        """With KillMode=process, no other process hears of it."""
        assert self.service["KillMode"] == "process" and "KillSignal" not in self.service
        process = self.running.pop(name)
        os.kill(process.pid, signal.SIGTERM)
        assert process.wait(float(self.service["TimeoutStopSec"])) == 0

    def running_code(self, name: str) -> str:
        return str(Path(f"/proc/{self.running[name].pid}/cwd").readlink())


@pytest.fixture
def node(tmp_path_factory, docker_engine, docker_image):
    # A short path: MPS has sockets below it.
    var = tmp_path_factory.mktemp("s")
    with InstalledNode(var=var, docker_url=docker_engine, nodes=(NODE,)) as stack:
        try:
            yield stack
        finally:
            remove_containers_of(stack, docker_engine)


def remove_containers_of(stack, docker_engine):
    """What a failed test leaves. The agent goes first: it would make them again."""
    if NODE in stack.running:
        stack.kill(NODE)
    with engine_client(docker_engine) as client:
        ours = (stack.var / "nodes" / NODE / "agent" / "node-id").read_text()
        for container in client.containers.list(
            all=True, filters={"label": f"tessera.node={ours}"}
        ):
            container.remove(force=True)


def containers(client, uids):
    """What would change if a container was started again."""
    found = {}
    for uid in uids:
        (one,) = client.containers.list(filters={"label": f"tessera.job={uid}"})
        state = one.attrs["State"]
        found[uid] = (one.id, state["Pid"], state["StartedAt"], one.attrs["RestartCount"])
    return found


def daemons(stack):
    """The pids of control daemons and of their servers."""
    agent = stack.var / "nodes" / NODE / "agent"
    program = control_program("", stack.var / "nodes" / NODE / "driver.json")
    found = {}
    for pid_file in agent.glob(f"mps/*/p/{PID_FILE}"):
        control = MpsControl(program, pid_file.parent, pid_file.parent.parent / "l")
        found[int(pid_file.read_text())] = control.servers()
    return found


def counted(stack, job):
    """The complete lines of a job's log, as the portal has it."""
    return portal_log(stack, job, 0).decode().split("\n")[:-1]


def test_an_upgrade_keeps_jobs_shares_and_their_logs(node, docker_engine):
    command = ["python3", "-c", COUNT]
    share = {"mps": {"threads": 25, "memory": "8GiB"}}
    jobs = [node.submit(command), *(node.submit(command, device=share) for _ in range(2))]
    for job in jobs:
        node.until_status(job, "running")
    uids = [node.job(job)["uid"] for job in jobs]
    with engine_client(docker_engine) as client:
        before, shares = containers(client, uids), daemons(node)
        assert len(shares) == 1 and all(shares.values())

        node.stop_unit(NODE)
        assert daemons(node) == shares
        assert containers(client, uids) == before
        stood = [len(counted(node, job)) for job in jobs]
        old_epoch = epoch(node)
        node.place_code()
        node.start_agent(NODE)
        assert node.running_code(NODE) == str(node.checkout)

        until(lambda: epoch(node) > old_epoch, what="the new agent's hello")
        for job, lines in zip(jobs, stood, strict=True):
            until(
                lambda job=job, lines=lines: len(counted(node, job)) > lines + 20,
                what=f"the log of {job} to go on",
            )
        assert daemons(node) == shares
        assert containers(client, uids) == before
        assert {node.job(job)["status"] for job in jobs} == {"running"}
        assert open_files(node.var / "nodes" / NODE / "agent") == []

        for job in jobs:
            node.call("POST", f"/jobs/{job}/cancel")
        for job in jobs:
            node.until_status(job, "cancelled")
            # The end of a log may come after the end of its job.
            until(
                lambda job=job: counted(node, job)[-1] == "saved",
                what=f"the last word of {job}",
            )
            *numbers, _ = counted(node, job)
            assert numbers == list(map(str, range(len(numbers))))
    until(lambda: daemons(node) == {}, what="the end of the daemon without shares")


def epoch(stack):
    """Which run of the agent counts; the portal's API keeps that to itself."""
    path = f"file:{stack.var / 'tessera.sqlite3'}?mode=ro"
    with contextlib.closing(sqlite3.connect(path, uri=True, timeout=300)) as database:
        ((found,),) = database.execute("SELECT epoch FROM inventory_node WHERE name = ?", (NODE,))
    return found


def open_files(folder):
    """Files that others than their owner can read or write. Nobody else gets below a folder that
    they may not pass through: containers see parts of one as mounts."""
    found, folders = [], [folder]
    while folders:
        at = folders.pop()
        # The agent may delete one meanwhile.
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            mode = at.lstat().st_mode
            if not stat.S_ISLNK(mode) and mode & 0o066:
                found.append(at)
            if stat.S_ISDIR(mode) and mode & 0o011:
                folders += at.iterdir()
    return found
