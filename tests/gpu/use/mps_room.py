"""A control daemon of MPS in folders of its own, started as the agent starts it, without exclusive
compute mode. When its block ends, nothing of it runs any more."""

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from agents.mps.control import PID_FILE, ControlFailure, MpsControl
from agents.mps.daemons import EXEC_AS_USER
from agents.mps.support import control_program
from tests.gpu.use.record import PROGRAMS, NotPossible, Record

JOB_USER = 65_534
ANSWER_SECONDS = 20.0
START_SECONDS = 10.0
POLL_SECONDS = 0.05


class MpsRoom:
    """`uid`: of the daemon, its servers and its clients."""

    def __init__(self, program: tuple[str, ...], folder: Path, uid: int, device: str) -> None:
        self.control = MpsControl(program, folder / "pipe", folder / "log")
        self.folder, self.uid, self.device = folder, uid, device

    def launch(self) -> dict[str, Any]:
        """Raises NotPossible with the agent's own sentence where the daemon does not start."""
        is_other = self.uid != os.geteuid()
        user = (str(EXEC_AS_USER), str(self.uid), str(self.folder / "shm"))
        words = (sys.executable, "-I", "-S", *user)
        began = time.monotonic()
        try:
            self.control.launch(self.device, words if is_other else ())
        except ControlFailure as failure:
            raise NotPossible(f"{failure.sentence} {self.logs()}") from failure
        while not self._pid_file.exists() and time.monotonic() - began < START_SECONDS:
            time.sleep(POLL_SECONDS)
        return {"seconds": round(time.monotonic() - began, 3), "uid": self.uid, **self.files()}

    def ask(self, command: str) -> dict[str, Any]:
        """What the program answers to a command, word for word."""
        began = time.monotonic()
        try:
            done = subprocess.run(
                [*self.control.program], input=f"{command}\n", env=self.control.environment(),
                capture_output=True, text=True, check=False, timeout=ANSWER_SECONDS,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            return {"command": command, "late_after": ANSWER_SECONDS}
        seconds = round(time.monotonic() - began, 3)
        words = {"stdout": done.stdout, "stderr": done.stderr, "seconds": seconds}
        return {"command": command, "status": done.returncode, **words}

    def server(self) -> int:
        """The first server's pid. Raises NotPossible."""
        listed = self.ask("get_server_list")
        pids = [int(word) for word in listed.get("stdout", "").split() if word.isdigit()]
        if not pids:
            raise NotPossible(f"the daemon has no server: {listed} {self.logs()}")
        return pids[0]

    def daemon(self) -> int:
        """Raises NotPossible where the file is missing by which the agent finds the daemon."""
        try:
            return int(self._pid_file.read_text("ascii"))
        except (OSError, ValueError) as error:
            raise NotPossible(f"{PID_FILE}: {error}") from error

    def statuses(self, seconds: float) -> list[dict[str, Any]]:
        """The server's status, each time that it changes, with the seconds since the start."""
        found: list[dict[str, Any]] = []
        began = time.monotonic()
        while time.monotonic() - began < seconds:
            servers = self.ask("get_server_list").get("stdout", "").split()
            words = {pid: self.ask(f"get_server_status {pid}").get("stdout", "") for pid in servers}
            if not found or found[-1]["statuses"] != words:
                found.append({"at": round(time.monotonic() - began, 3), "statuses": words})
            time.sleep(POLL_SECONDS)
        return found

    def files(self) -> dict[str, Any]:
        """Of the pipe folder, by name: mode and owner. And the process behind the pid file."""
        pipe = self.control.pipe
        abouts = {path.name: path.lstat() for path in sorted(pipe.iterdir())}
        found = {name: f"{about.st_mode:o} {about.st_uid}" for name, about in abouts.items()}
        try:
            return {"pipe": found, "daemon": _process(self.daemon())}
        except NotPossible as missing:
            return {"pipe": found, "daemon": str(missing)}

    @property
    def _pid_file(self) -> Path:
        return self.control.pipe / PID_FILE

    def client_environment(self) -> dict[str, str]:
        return self.control.environment(self.device) | {"HOME": str(self.folder)}

    def client_program(self, *words: str) -> list[str]:
        """A copy that the clients' user can read, wherever the checkout is."""
        copy = self.folder / "cuda_client.py"
        if not copy.exists():
            shutil.copyfile(PROGRAMS / copy.name, copy)
            copy.chmod(0o644)
        return [self._python(), str(copy), *words]

    def _python(self) -> str:
        """The running Python, or the machine's where the clients' user cannot run that one. The
        program needs nothing but the standard library. Raises NotPossible."""
        for python in (sys.executable, "/usr/bin/python3"):
            with contextlib.suppress(OSError, subprocess.CalledProcessError):
                subprocess.run([python, "-c", ""], check=True, **as_user(self.uid))
                return python
        raise NotPossible(f"uid {self.uid} can run neither {sys.executable} nor /usr/bin/python3")

    def logs(self) -> dict[str, str]:
        found = sorted(self.control.log.glob("*"))
        return {path.name: path.read_text("utf-8", "replace")[-20_000:] for path in found}

    def processes(self) -> list[int]:
        """Every process that has our pipe folder in its environment: daemon, servers, clients."""
        ours = os.fsencode(f"CUDA_MPS_PIPE_DIRECTORY={self.control.pipe}")
        found = []
        for path in Path("/proc").iterdir():
            with contextlib.suppress(OSError):
                if path.name.isdigit() and ours in (path / "environ").read_bytes().split(b"\0"):
                    found.append(int(path.name))
        return sorted(set(found) - {os.getpid()})


def as_user(uid: int) -> dict[str, Any]:
    """For subprocess: to run as this user; nothing where that is the present one."""
    return {} if uid == os.geteuid() else {"user": uid, "group": uid, "extra_groups": []}


@contextlib.contextmanager
def mps_room(record: Record, device: str) -> Iterator[MpsRoom]:
    """Raises NotPossible where this machine has no control program."""
    program = control_program("", record.simulated)
    if not shutil.which(program[0]):
        raise NotPossible(f"this machine has no {program[0]}")
    is_root = os.geteuid() == 0 and not record.simulated
    uid = JOB_USER if is_root else os.geteuid()
    with tempfile.TemporaryDirectory(prefix="mps-", dir="/tmp") as name:  # sockets need short names
        room = MpsRoom(program, Path(name), uid, device)
        room.folder.chmod(0o711)
        for part in ("pipe", "log", "shm"):
            (room.folder / part).mkdir(mode=0o700)
            os.chown(room.folder / part, uid, -1)
        try:
            yield room
        finally:
            room.ask("quit -t 1")
            for pid in room.processes():
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)


def _process(pid: int) -> dict[str, Any]:
    proc = Path(f"/proc/{pid}")
    environ = (proc / "environ").read_bytes().split(b"\0")
    return {
        "pid": pid,
        "uid": proc.stat().st_uid,
        "cmdline": (proc / "cmdline").read_bytes().replace(b"\0", b" ").decode(),
        "comm": (proc / "comm").read_text().strip(),
        "mps_environ": [word.decode() for word in environ if b"MPS" in word],
    }
