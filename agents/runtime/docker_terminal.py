"""Terminals in containers: an exec with a screen, as the container's own user, within its limits.

The engine never ends what an exec has started, so each terminal marks its processes by a variable,
and one more exec ends those that have it.
"""

import contextlib
import socket
import time
import uuid
from typing import Any

from docker import APIClient
from docker.errors import APIError
from docker.models.containers import Container

from agents.contract.terminal import SHELLS
from agents.runtime.docker import DockerRuntime
from agents.runtime.docker_errors import engine_errors
from agents.runtime.docker_recipe import LABEL
from agents.runtime.terminal import ShellMissing, TerminalDescriptor, in_terminal_thread

# How long the engine may take to start a process, and how often it is asked.
START_SECONDS, START_PAUSE_SECONDS = 15.0, 0.03
# Of the engine: a program that cannot be run, or is not there.
MISSING_CODES = (126, 127)
MARK = "TESSERA_TERMINAL"
# Ends by SIGHUP, then SIGKILL, every process whose environment has the word; but itself.
END_MARKED = """
marked() {
  for environment in /proc/[0-9]*/environ; do
    pid=${environment#/proc/}; pid=${pid%/environ}
    [ "$pid" != "$$" ] && grep -q "$0" "$environment" 2>/dev/null && echo "$pid"
  done
}
send() { for pid in $(marked); do kill "-$1" "$pid" 2>/dev/null; done; }
send HUP; send CONT
for try in 1 2 3 4 5 6 7 8 9 10; do [ -z "$(marked)" ] && exit; sleep 0.1; done
send KILL
"""


class DockerTerminal(TerminalDescriptor):
    """The connection to an exec, which is its screen."""

    def __init__(
        self,
        api: APIClient,
        container: Container,
        exec_id: str,
        mark: str,
        connection: socket.socket,
    ) -> None:
        super().__init__(connection.fileno())
        self._container = container
        self._api = api
        self._exec = exec_id
        self._mark = mark
        self._connection = connection
        self._is_closed = False

    async def resize(self, columns: int, rows: int) -> None:
        await in_terminal_thread(self.set_size, columns, rows)

    async def exit_code(self) -> int:
        return await in_terminal_thread(exec_exit_code, self._api, self._exec)

    async def close(self) -> None:
        if not self._is_closed:
            self._is_closed = True
            try:
                await in_terminal_thread(end_marked, self._container, self._mark)
            finally:
                # Also of an engine that does not answer.
                self._connection.close()

    def set_size(self, columns: int, rows: int) -> None:
        # The shell may just have ended.
        with contextlib.suppress(APIError):
            self._api.exec_resize(self._exec, height=rows, width=columns)


def open_docker_terminal(
    runtime: DockerRuntime, container: Container, program: str, columns: int, rows: int
) -> DockerTerminal:
    """`program`: an absolute path in the container; empty: the usual shell. Raises ShellMissing,
    OSError if the engine is on another machine, and what engine_errors raises."""
    with engine_errors("open a terminal"):
        wrapper = _wrapper(container)
        for shell in (program,) if program else SHELLS:
            # A wrapper would hide that it is not there.
            if wrapper and container.exec_run([shell, "-c", ":"])[0] in MISSING_CODES:
                continue
            mark = f"{MARK}={uuid.uuid4().hex}"
            exec_id = _new_exec(runtime, container, exec_command(container, [shell]), mark)
            connection = exec_connection(runtime, exec_id, tty=True)
            terminal = DockerTerminal(runtime.client.api, container, exec_id, mark, connection)
            is_begun = False
            try:
                if not _is_missing(runtime, exec_id):
                    terminal.set_size(columns, rows)
                    is_begun = True
                    return terminal
            finally:
                if not is_begun:
                    connection.close()
    raise ShellMissing


def end_leftover_terminals(runtime: DockerRuntime) -> None:
    """And what SSH has left, of an agent that was killed: they have no client and nobody else ends
    them."""
    ours: dict[str, Any] = {"label": f"{LABEL}node={runtime.node}", "status": "running"}
    with engine_errors("list"):
        for container in runtime.client.containers.list(filters=ours, ignore_removed=True):
            # Also where no exec runs: an SSH server ends with its agent, what it started does not.
            end_marked(container, f"{MARK}=")


def end_marked(container: Container, mark: str) -> None:
    """End the processes that have it in their environment. A container that has ended has none."""
    with contextlib.suppress(APIError):
        container.exec_run([SHELLS[-1], "-c", END_MARKED, mark], environment={})


def exec_command(container: Container, command: list[str]) -> list[str]:
    """The command of an exec that gets what the container's own command gets."""
    return [*_wrapper(container), *command]


def exec_exit_code(api: APIClient, exec_id: str) -> int:
    """From 0 to 255, once it has ended."""
    with contextlib.suppress(APIError):
        code = api.exec_inspect(exec_id)["ExitCode"]
        return int(code) & 0xFF if code is not None else 1
    return 1


def _wrapper(container: Container) -> list[str]:
    """The words before its command, by which secrets get into its environment."""
    count = int(container.labels.get(f"{LABEL}wrapper") or 0)
    return list((container.attrs["Config"]["Cmd"] or [])[:count])


def _new_exec(runtime: DockerRuntime, container: Container, command: list[str], mark: str) -> str:
    name, _, value = mark.partition("=")
    environment = {name: value, "TERM": "xterm-256color", "SHELL": command[-1]}
    created = runtime.client.api.exec_create(
        container.id, command, stdin=True, tty=True, environment=environment
    )
    return str(created["Id"])


def exec_connection(runtime: DockerRuntime, exec_id: str, *, tty: bool) -> socket.socket:
    """Start it. Its input and output: with a screen as they are, without one in frames. Raises
    OSError."""
    raw: Any = runtime.client.api.exec_start(exec_id, tty=tty, socket=True)
    connection = getattr(raw, "_sock", raw)
    if type(connection) is not socket.socket:
        raise OSError("terminals need an engine on this machine: its connection is encrypted")
    # The SDK's objects close what they share when they are collected.
    own = connection.dup()
    raw.close()
    connection.close()
    return own


def _is_missing(runtime: DockerRuntime, exec_id: str) -> bool:
    """Whether the engine found no such program, which it says by an exit code without a process."""
    deadline = time.monotonic() + START_SECONDS
    while True:
        state = runtime.client.api.exec_inspect(exec_id)
        if state["Pid"] or state["ExitCode"] is not None or time.monotonic() >= deadline:
            return not state["Pid"] and state["ExitCode"] in MISSING_CODES
        time.sleep(START_PAUSE_SECONDS)
