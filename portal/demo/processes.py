"""The demonstration's child processes: each with a log, monitored, and stopped together."""

import contextlib
import math
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from portal.demo.child_guard import STOP_SECONDS

CHILD_GUARD = Path(__file__).with_name("child_guard.py")
ROOT = Path(__file__).resolve().parents[2]
LAST_LINES = 12
# The guard kills its child after STOP_SECONDS; this limit is for the guard itself.
END_SECONDS = STOP_SECONDS + 10
# Between two looks. They become rarer, so that a slow machine has its time for the children.
FIRST_POLL_SECONDS, LAST_POLL_SECONDS = 0.05, 0.5
# After this long, what is waited for is not a matter of course: its log has the reason.
LONG_SECONDS = 10.0
MAX_QUOTED = 100
T = TypeVar("T")


class DemoFailed(Exception):
    """The demonstration cannot continue; the message says why and where to look."""


@dataclass
class ChildProcesses:
    """Children with a common environment `env`; each writes to `logs`/<name>.log."""

    logs: Path
    env: Mapping[str, str]
    running: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    def start(self, name: str, *arguments: str, env: Mapping[str, str] | None = None) -> None:
        """Run `python -m <arguments>` under the child guard, so that it never outlives us."""
        self.logs.mkdir(parents=True, exist_ok=True)
        command = [sys.executable, "-m", *arguments]
        with self.log(name).open("wb") as log:
            self.running[name] = subprocess.Popen(  # noqa: S603 - our own programs
                [sys.executable, "-I", "-S", str(CHILD_GUARD), str(os.getpid()), *command],
                cwd=ROOT,
                env={**self.env, **(env or {})},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def wait_until(
        self,
        check: Callable[[], T | None],
        *,
        what: str,
        seconds: float = math.inf,
        report: Callable[[float], None] | None = None,
    ) -> T:
        """Look until `check` is true, and tell `report` how many seconds that takes so far.

        Raises DemoFailed if a child ends. A child that lives is waited for as long as it takes,
        unless `seconds` are given.
        """
        began, pause = time.monotonic(), FIRST_POLL_SECONDS
        while not (result := check()):
            self.require_alive()
            waited = time.monotonic() - began
            if waited > seconds:
                raise DemoFailed(f"waited {seconds:.0f} s for {what}: see {self.logs}/")
            if report is not None:
                report(waited)
            time.sleep(pause)
            pause = min(LAST_POLL_SECONDS, pause * 1.1)
        return result

    def waiting_for(self, what: str, name: str, waited: float) -> str:
        """What is waited for, and after a while the last line of the log of that child."""
        if waited < LONG_SECONDS or not (lines := self.last_lines(name)):
            return f"waiting for {what}"
        return f"waiting for {what}; {self.log(name)} ends with: {lines[-1][:MAX_QUOTED]}"

    def require_alive(self) -> None:
        """Raises DemoFailed with the last log lines of a child that has ended."""
        for name, process in self.running.items():
            if process.poll() is not None:
                lines = "\n".join(f"    {line}" for line in self.last_lines(name))
                raise DemoFailed(
                    f"{name} exited with code {process.returncode}: {self.log(name)}\n{lines}"
                )

    def stop(self) -> None:
        """Stop agents first, so that the portal still records what they stopped; then the rest."""
        agents = {name for name in self.running if name not in ("web", "worker")}
        for group in (agents, set(self.running) - agents):
            for name in group:
                self.running[name].terminate()
            for name in group:
                self._end(self.running.pop(name))

    def log(self, name: str) -> Path:
        return self.logs / f"{name}.log"

    def last_lines(self, name: str) -> list[str]:
        return self.log(name).read_text("utf-8", "replace").splitlines()[-LAST_LINES:]

    def _end(self, process: subprocess.Popen[bytes]) -> None:
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(END_SECONDS)
            return
        process.kill()
        process.wait()
