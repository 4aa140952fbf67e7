"""SSH servers in containers: an exec without a screen, as the container's own user, within its
limits, which ends as terminals end."""

import contextlib
import socket
import uuid
from collections.abc import Mapping, Sequence
from typing import Any

from docker import APIClient
from docker.models.containers import Container

from agents.runtime.docker import DockerRuntime
from agents.runtime.docker_errors import engine_errors
from agents.runtime.docker_recipe import VAR_TMP
from agents.runtime.docker_terminal import (
    MARK,
    end_marked,
    exec_command,
    exec_connection,
    exec_exit_code,
)
from agents.runtime.ssh_server import MAX_MESSAGE_BYTES, server_command
from agents.runtime.terminal import TerminalDescriptor, in_terminal_thread

# Of the engine's frames: which output, three empty bytes, and the length of what follows.
FRAME_HEAD_BYTES = 8
OUTPUT = 1
# Where the files of a server lie, which have the job's variables, its secrets too.
MEMORY = "/dev/shm"  # noqa: S108 - of the container, unless something is mounted there


class ExecFrames:
    """The two outputs of an exec, out of the engine's bytes, however they were cut."""

    def __init__(self) -> None:
        self._rest = bytearray()
        self.messages = b""

    def feed(self, data: bytes) -> bytes:
        """What its standard output has by now; its errors are kept as `messages`."""
        self._rest += data
        output = bytearray()
        while len(self._rest) >= FRAME_HEAD_BYTES:
            kind, size = self._rest[0], int.from_bytes(self._rest[4:FRAME_HEAD_BYTES])
            if len(self._rest) < FRAME_HEAD_BYTES + size:
                break
            payload = bytes(self._rest[FRAME_HEAD_BYTES : FRAME_HEAD_BYTES + size])
            del self._rest[: FRAME_HEAD_BYTES + size]
            if kind == OUTPUT:
                output += payload
            else:
                self.messages = (self.messages + payload)[-MAX_MESSAGE_BYTES:]
        return bytes(output)


class DockerSshServer:
    """The connection to an exec, which is the server's input and output."""

    def __init__(
        self,
        api: APIClient,
        container: Container,
        exec_id: str,
        mark: str,
        connection: socket.socket,
    ) -> None:
        self._api = api
        self._container = container
        self._exec = exec_id
        self._mark = mark
        self._connection = connection
        self._bytes = TerminalDescriptor(connection.fileno())
        self._frames = ExecFrames()
        self._is_closed = False

    async def read(self) -> bytes:
        while data := await self._bytes.read():
            if output := self._frames.feed(data):
                return output
        return b""

    async def write(self, data: bytes) -> None:
        await self._bytes.write(data)

    async def end(self) -> None:
        with contextlib.suppress(OSError):
            self._connection.shutdown(socket.SHUT_WR)

    def abort(self) -> None:
        """`close` follows."""

    async def failure(self) -> tuple[int, str]:
        code = await in_terminal_thread(exec_exit_code, self._api, self._exec)
        return code, self._frames.messages.decode("utf-8", "replace")

    async def close(self) -> None:
        if not self._is_closed:
            self._is_closed = True
            try:
                await in_terminal_thread(end_marked, self._container, self._mark)
            finally:
                self._connection.close()


def open_docker_ssh(
    runtime: DockerRuntime, container: Container, client_key: str
) -> DockerSshServer:
    """Raises OSError if the engine is on another machine, and what engine_errors raises."""
    with engine_errors("open SSH"):
        value = uuid.uuid4().hex
        folder = f"{files_place(container.attrs['Mounts'])}/tessera-ssh.{value}"
        command = exec_command(container, server_command(client_key, folder))
        created = runtime.client.api.exec_create(
            container.id, command, stdin=True, environment={MARK: value}
        )
        exec_id = str(created["Id"])
        connection = exec_connection(runtime, exec_id, tty=False)
    return DockerSshServer(runtime.client.api, container, exec_id, f"{MARK}={value}", connection)


def files_place(mounts: Sequence[Mapping[str, Any]]) -> str:
    """A folder of the container that no other job reaches. `mounts`: as the engine describes them.
    Shares of MPS have one /dev/shm for all jobs of a project on a device, under one user."""
    is_shared = any(mount["Destination"] == MEMORY for mount in mounts)
    return str(VAR_TMP) if is_shared else MEMORY
