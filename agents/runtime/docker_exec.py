"""Programs beside the command of a container: an exec, as the container's own user, within its
limits, and the connection to it.

The engine never ends what an exec has started, so each marks its processes by a variable, and one
more exec ends those that have it.
"""

import contextlib
import socket
from collections.abc import Mapping
from typing import Any

from docker import APIClient
from docker.errors import APIError
from docker.models.containers import Container

from agents.contract.terminal import SHELLS
from agents.runtime.docker import DockerRuntime
from agents.runtime.docker_recipe import LABEL
from agents.runtime.terminal import TerminalDescriptor, in_terminal_thread

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


class DockerExec(TerminalDescriptor):
    """A program and its connection: its input and output, with a screen as they are, without one in
    frames."""

    def __init__(
        self,
        runtime: DockerRuntime,
        container: Container,
        command: list[str],
        mark: str,
        environment: Mapping[str, str],
        *,
        tty: bool,
    ) -> None:
        """Start it. It gets what the container's own command gets. `mark`: no other's. Raises
        OSError if the engine is on another machine, and what the engine answers."""
        self._api = runtime.client.api
        self._container = container
        self._mark = mark
        created = self._api.exec_create(
            container.id,
            [*wrapper_of(container), *command],
            stdin=True,
            tty=tty,
            environment={MARK: mark, **environment},
        )
        self._exec = str(created["Id"])
        self._connection = _connection(self._api, self._exec, tty=tty)
        self._is_closed = False
        super().__init__(self._connection.fileno())

    async def exit_code(self) -> int:
        """From 0 to 255, once it has ended."""
        return await in_terminal_thread(self._exit_code)

    async def close(self) -> None:
        """End it, with all that it started."""
        if not self._is_closed:
            self._is_closed = True
            try:
                await in_terminal_thread(end_marked, self._container, f"{MARK}={self._mark}")
            finally:
                # Also of an engine that does not answer.
                self._connection.close()

    def _exit_code(self) -> int:
        with contextlib.suppress(APIError):
            code = self._api.exec_inspect(self._exec)["ExitCode"]
            return int(code) & 0xFF if code is not None else 1
        return 1


def end_marked(container: Container, mark: str) -> None:
    """End the processes that have it in their environment. A container that has ended has none."""
    with contextlib.suppress(APIError):
        container.exec_run([SHELLS[-1], "-c", END_MARKED, mark], environment={})


def wrapper_of(container: Container) -> list[str]:
    """The words before its command, by which secrets get into its environment."""
    count = int(container.labels.get(f"{LABEL}wrapper") or 0)
    return list((container.attrs["Config"]["Cmd"] or [])[:count])


def _connection(api: APIClient, exec_id: str, *, tty: bool) -> socket.socket:
    """Start it. Raises OSError."""
    raw: Any = api.exec_start(exec_id, tty=tty, socket=True)
    connection = getattr(raw, "_sock", raw)
    if type(connection) is not socket.socket:
        raise OSError("terminals need an engine on this machine: its connection is encrypted")
    # The SDK's objects close what they share when they are collected.
    own = connection.dup()
    raw.close()
    connection.close()
    return own
