"""An engine that a test may freeze, end and start again: never the machine's own.

Its network and mount namespaces are held by another process, so that what runs lives through it.
"""

import contextlib
import os
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from docs.examples.build_image import build_image
from tests.environment import debian
from tests.environment.docker_engine import (
    LOOPBACK_THEN,
    NAMESPACES,
    DockerEngine,
    answers,
    engine_client,
    strays,
)
from tests.environment.levels import skip_without
from tests.environment.programs import Program, end, temporary_home


class OwnEngine(DockerEngine):
    """`start`, then `freeze` and `thaw`, or `down` and `start`, as often as wanted; then `stop`."""

    def __init__(self, home: Path) -> None:
        super().__init__(home)
        self.live_restore = False
        self.is_frozen = False
        command = (*NAMESPACES, *LOOPBACK_THEN, "sleep", "infinity")
        self._holder = Program(command, log=home / "holder.log", environ=os.environ)
        # Whoever enters its namespaces before it has them stays in those of the machine.
        self._holder.wait_ready(lambda: program_name(self.holder_pid) == "sleep")
        self._make_gpu_hook()

    def start(self) -> None:
        log = self.home / "dockerd.log"
        self._program = Program(self._command(), log=log, environ=self._environ())
        self._program.wait_ready(lambda: answers(self.base_url))

    def freeze(self) -> None:
        """It takes connections and requests, and answers none. Returns once no thread of it runs;
        `is_frozen` tells whoever would wait for an answer."""
        os.kill(self._pid, signal.SIGSTOP)
        while not self._stands_still():
            os.sched_yield()
        self.is_frozen = True

    def thaw(self) -> None:
        self.is_frozen = False
        os.kill(self._pid, signal.SIGCONT)

    def down(self) -> None:
        assert self._program
        self._program.stop()

    def lose_power(self) -> None:
        """Engine, containerd, shims and containers end at once; what was in memory is gone."""
        assert self._program
        inside = container_processes(self.base_url)
        self._program.kill()
        end([*strays(self.home), *inside])
        shutil.rmtree(self.home / "exec", ignore_errors=True)
        (self.home / "docker.pid").unlink(missing_ok=True)

    def stop(self) -> None:
        if self._program and self._program.process.poll() is None:
            self.thaw()
        try:
            super().stop()
        finally:
            end([self._holder.process.pid])
            self._holder.process.wait()

    @property
    def holder_pid(self) -> int:
        """The process that holds its namespaces; nsenter takes it."""
        return self._holder.process.pid

    @property
    def _pid(self) -> int:
        assert self._program
        return self._program.process.pid

    def _stands_still(self) -> bool:
        stats = [path.read_text() for path in Path(f"/proc/{self._pid}/task").glob("*/stat")]
        return all(stat.rpartition(")")[2].split()[0] in "TZ" for stat in stats)

    def _command(self) -> list[str]:
        dockerd = debian.DOCKERD.path()
        command = super()._command()
        own = command[command.index(str(dockerd)) :]
        inside = ["nsenter", "--target", str(self.holder_pid), "--net", "--mount"]
        return [*inside, *own, *(["--live-restore"] if self.live_restore else [])]


def program_name(pid: int) -> str:
    return Path(f"/proc/{pid}/comm").read_text().strip()


def container_processes(base_url: str) -> list[int]:
    """The processes of all containers that run."""
    with engine_client(base_url) as client:
        running = client.containers.list(ignore_removed=True)
        return [int(row[1]) for each in running for row in each.top()["Processes"]]


@contextlib.contextmanager
def own_engine(kind: type[OwnEngine] = OwnEngine) -> Iterator[OwnEngine]:
    """Started, with the example image. Skips the test where no engine can run."""
    skip_without(debian.DOCKERD)
    if reason := debian.why_not("docker"):
        pytest.skip(reason)
    with temporary_home("docker") as home, contextlib.ExitStack() as stack:
        engine = kind(home)
        stack.callback(engine.stop)
        engine.start()
        build_image(engine.base_url)
        yield engine


@pytest.fixture(scope="module")
def engine() -> Iterator[OwnEngine]:
    with own_engine() as own:
        yield own
