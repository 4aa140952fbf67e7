"""An MPS control daemon of our own: private folders, this user, no server, no CUDA context.

Words and variables: NVIDIA's MPS guide. A control daemon starts a server, which opens a GPU, only
when a CUDA program asks for one or by `start_server`; neither happens here.
"""

import contextlib
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

PROGRAM = "nvidia-cuda-mps-control"
SECONDS = 20


class MpsFailure(Exception):
    """The daemon did not do as it was asked; the sentence has what it wrote."""


@dataclass(frozen=True)
class Control:
    """A running daemon and the folders it was given."""

    program: str
    folder: Path
    daemon: subprocess.Popen[str]

    @property
    def pipes(self) -> Path:
        return self.folder / "pipe"

    def ask(self, command: str) -> str:
        """One command over the daemon's own protocol. Raises MpsFailure."""
        done = _told(self.program, self.folder, command)
        if done.returncode:
            raise MpsFailure(f"{command}: {done.stdout.strip()} {done.stderr.strip()}")
        return done.stdout.strip()

    def quit(self, within: float = SECONDS) -> int:
        """Ends it; answers its exit status. Raises MpsFailure where it stays so many seconds."""
        self.ask("quit")
        try:
            return self.daemon.wait(within)
        except subprocess.TimeoutExpired as late:
            raise MpsFailure(f"{PROGRAM} still runs after `quit`") from late


def installed() -> str | None:
    """The path of the program, or None where the machine has none."""
    return shutil.which(PROGRAM)


@contextlib.contextmanager
def started(program: str) -> Iterator[Control]:
    """A daemon that answers; none is left behind, whatever happens inside. Raises MpsFailure."""
    with tempfile.TemporaryDirectory(prefix="mps-") as name:
        folder = Path(name)
        for part in ("pipe", "log"):
            (folder / part).mkdir(mode=0o700)
        out = folder / "out"
        with out.open("w") as written:
            daemon = subprocess.Popen(
                [program, "-f"],
                env=_environment(folder),
                stdin=subprocess.DEVNULL, stdout=written, stderr=written, text=True,
            )  # fmt: skip
        try:
            _wait(program, folder, daemon)
            yield Control(program, folder, daemon)
        finally:
            _end(daemon)


def _wait(program: str, folder: Path, daemon: subprocess.Popen[str]) -> None:
    """Until it answers. Raises MpsFailure where it ends before, or does not answer in time."""
    deadline = time.monotonic() + SECONDS
    while _told(program, folder, "get_server_list").returncode:
        if daemon.poll() is not None:
            raise MpsFailure(f"{PROGRAM} -f ended with {daemon.returncode}: {_written(folder)}")
        if time.monotonic() > deadline:
            raise MpsFailure(f"{PROGRAM} does not answer: {_written(folder)}")
        time.sleep(0.05)


def _end(daemon: subprocess.Popen[str]) -> None:
    daemon.terminate()
    try:
        daemon.wait(SECONDS)
    except subprocess.TimeoutExpired:
        daemon.kill()
        daemon.wait()


def _told(program: str, folder: Path, command: str) -> subprocess.CompletedProcess[str]:
    """What the program answers to a command on its standard input."""
    try:
        return subprocess.run(
            [program], input=f"{command}\n", env=_environment(folder),
            capture_output=True, text=True, check=False, timeout=SECONDS,
        )  # fmt: skip
    except subprocess.TimeoutExpired as late:
        raise MpsFailure(f"{command}: no answer in {SECONDS} s: {_written(folder)}") from late


def _written(folder: Path) -> str:
    files = [folder / "out", *sorted((folder / "log").iterdir())]
    return " ".join(file.read_text("utf-8", "replace").strip() for file in files)[-800:]


def _environment(folder: Path) -> dict[str, str]:
    """Ours, without whatever of MPS is set for other daemons of this machine."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("CUDA_MPS_")}
    return kept | {
        "CUDA_MPS_PIPE_DIRECTORY": str(folder / "pipe"),
        "CUDA_MPS_LOG_DIRECTORY": str(folder / "log"),
    }
