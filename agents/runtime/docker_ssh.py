"""SSH servers in containers: an exec without a screen."""

import contextlib
import socket
import uuid
from collections.abc import Mapping, Sequence
from typing import Any

from docker.models.containers import Container

from agents.runtime.docker import DockerRuntime
from agents.runtime.docker_errors import engine_errors
from agents.runtime.docker_exec import DockerExec
from agents.runtime.docker_recipe import VAR_TMP
from agents.runtime.ssh_server import MAX_MESSAGE_BYTES, server_command

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


class DockerSshServer(DockerExec):
    """The exec of `sshd`, whose connection carries the server's input and output."""

    def __init__(self, runtime: DockerRuntime, container: Container, client_key: str) -> None:
        mark = uuid.uuid4().hex
        folder = f"{files_place(container.attrs['Mounts'])}/tessera-ssh.{mark}"
        command = server_command(client_key, folder)
        super().__init__(runtime, container, command, mark, {}, tty=False)
        self._frames = ExecFrames()

    async def read(self) -> bytes:
        while data := await super().read():
            if output := self._frames.feed(data):
                return output
        return b""

    async def end(self) -> None:
        with contextlib.suppress(OSError):
            self._connection.shutdown(socket.SHUT_WR)

    def abort(self) -> None:
        """`close` follows."""

    async def failure(self) -> tuple[int, str]:
        code = await self.exit_code()
        return code, self._frames.messages.decode("utf-8", "replace")


def open_docker_ssh(
    runtime: DockerRuntime, container: Container, client_key: str
) -> DockerSshServer:
    """Raises OSError if the engine is on another machine, and what engine_errors raises."""
    with engine_errors("open SSH"):
        return DockerSshServer(runtime, container, client_key)


def files_place(mounts: Sequence[Mapping[str, Any]]) -> str:
    """A folder of the container that no other job reaches. `mounts`: as the engine describes them.
    Shares of MPS have one /dev/shm for all jobs of a project on a device, under one user."""
    is_shared = any(mount["Destination"] == MEMORY for mount in mounts)
    return str(VAR_TMP) if is_shared else MEMORY
