"""Terminals in containers: an exec with a screen."""

import contextlib
import time
import uuid
from typing import Any

from docker.errors import APIError
from docker.models.containers import Container

from agents.contract.terminal import SHELLS
from agents.runtime.docker import DockerRuntime
from agents.runtime.docker_errors import engine_errors
from agents.runtime.docker_exec import MARK, DockerExec, end_marked, wrapper_of
from agents.runtime.docker_recipe import LABEL
from agents.runtime.terminal import ShellMissing, in_terminal_thread

# How long the engine may take to start a process, and how often it is asked.
START_SECONDS, START_PAUSE_SECONDS = 15.0, 0.03
# Of the engine: a program that cannot be run, or is not there.
MISSING_CODES = (126, 127)


class DockerTerminal(DockerExec):
    """The exec of a shell, whose connection is its screen."""

    def __init__(self, runtime: DockerRuntime, container: Container, shell: str) -> None:
        environment = {"TERM": "xterm-256color", "SHELL": shell}
        super().__init__(runtime, container, [shell], uuid.uuid4().hex, environment, tty=True)

    async def resize(self, columns: int, rows: int) -> None:
        await in_terminal_thread(self.set_size, columns, rows)

    def set_size(self, columns: int, rows: int) -> None:
        # The shell may just have ended.
        with contextlib.suppress(APIError):
            self._api.exec_resize(self._exec, height=rows, width=columns)

    def is_missing(self) -> bool:
        """Whether the engine found no such shell, which it says by an exit code without a
        process."""
        deadline = time.monotonic() + START_SECONDS
        while True:
            state = self._api.exec_inspect(self._exec)
            if state["Pid"] or state["ExitCode"] is not None or time.monotonic() >= deadline:
                return not state["Pid"] and state["ExitCode"] in MISSING_CODES
            time.sleep(START_PAUSE_SECONDS)

    def disconnect(self) -> None:
        """In place of `close`, of a shell that has not begun."""
        self._connection.close()


def open_docker_terminal(
    runtime: DockerRuntime, container: Container, program: str, columns: int, rows: int
) -> DockerTerminal:
    """`program`: an absolute path in the container; empty: the usual shell. Raises ShellMissing,
    OSError if the engine is on another machine, and what engine_errors raises."""
    with engine_errors("open a terminal"):
        has_wrapper = bool(wrapper_of(container))
        for shell in (program,) if program else SHELLS:
            # A wrapper would hide that it is not there.
            if has_wrapper and container.exec_run([shell, "-c", ":"])[0] in MISSING_CODES:
                continue
            terminal = DockerTerminal(runtime, container, shell)
            is_begun = False
            try:
                if not terminal.is_missing():
                    terminal.set_size(columns, rows)
                    is_begun = True
                    return terminal
            finally:
                if not is_begun:
                    terminal.disconnect()
    raise ShellMissing


def end_leftover_terminals(runtime: DockerRuntime) -> None:
    """And what SSH has left, of an agent that was killed: they have no client and nobody else ends
    them."""
    ours: dict[str, Any] = {"label": f"{LABEL}node={runtime.node}", "status": "running"}
    with engine_errors("list"):
        for container in runtime.client.containers.list(filters=ours, ignore_removed=True):
            # Also where no exec runs: an SSH server ends with its agent, what it started does not.
            end_marked(container, f"{MARK}=")
