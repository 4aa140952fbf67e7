"""SSH servers beside plain processes: pipes, and a parent that outlives nothing of the server."""

import os
import select
import shutil
import socket
import subprocess
import uuid
from pathlib import Path

from agents.runtime.process import ProcessRuntime
from agents.runtime.process_terminal import read_exit_code, start_beside
from agents.runtime.ssh_server import MAX_MESSAGE_BYTES, server_command
from agents.runtime.terminal import TerminalDescriptor, in_terminal_thread


class ProcessSshServer:
    """Its input and output, and the pipe of its messages."""

    def __init__(
        self,
        runtime: ProcessRuntime,
        replica_id: str,
        folder: Path,
        pipes: "ServerPipes",
        channel: socket.socket,
        parent: subprocess.Popen[bytes],
    ) -> None:
        self._runtime = runtime
        self._folder = folder
        self._pipes = pipes
        self._input = TerminalDescriptor(pipes.input)
        self._output = TerminalDescriptor(pipes.output)
        self._channel = channel
        self._parent = parent
        self._is_closed = False
        runtime.terminals[parent.pid] = replica_id

    async def read(self) -> bytes:
        return await self._output.read()

    async def write(self, data: bytes) -> None:
        if self._pipes.input >= 0:
            await self._input.write(data)

    async def end(self) -> None:
        self._pipes.close_input()

    def abort(self) -> None:
        """`close` follows."""

    async def failure(self) -> tuple[int, str]:
        code = await in_terminal_thread(read_exit_code, self._channel)
        return code, self._pipes.messages().decode("utf-8", "replace")

    async def close(self) -> None:
        if not self._is_closed:
            self._is_closed = True
            self._channel.close()
            await in_terminal_thread(self._parent.wait)
            # It removes them itself, if it has the time.
            shutil.rmtree(self._folder, ignore_errors=True)
            self._pipes.close()
            del self._runtime.terminals[self._parent.pid]


class ServerPipes:
    """Our ends, and those of the server until it has them."""

    def __init__(self) -> None:
        self.server_input, self.input = os.pipe()
        self.output, self.server_output = os.pipe()
        self._messages, self.server_messages = os.pipe()
        # Only the first are read: a server with many, as of forwards that fail, waits for nobody.
        os.set_blocking(self.server_messages, False)

    def close_server(self) -> None:
        for descriptor in (self.server_input, self.server_output, self.server_messages):
            os.close(descriptor)

    def close_input(self) -> None:
        if self.input >= 0:
            os.close(self.input)
            self.input = -1

    def close(self) -> None:
        self.close_input()
        os.close(self.output)
        os.close(self._messages)

    def messages(self) -> bytes:
        """The first of them, as far as they have come."""
        is_there = select.select([self._messages], [], [], 0)[0]
        return os.read(self._messages, MAX_MESSAGE_BYTES) if is_there else b""


def open_process_ssh(runtime: ProcessRuntime, replica_id: str, client_key: str) -> ProcessSshServer:
    """Raises ShellMissing, and OSError, also if the replica has ended."""
    # Removed with the replica at the latest.
    temporary = runtime.workspaces.folders(replica_id).temporary
    folder = temporary.absolute() / f"tessera-ssh.{uuid.uuid4().hex}"
    pipes, is_begun = ServerPipes(), False
    try:
        ends = (pipes.server_input, pipes.server_output, pipes.server_messages)
        words = server_command(client_key, str(folder))
        channel, parent = start_beside(runtime, replica_id, words, *ends)
        is_begun = True
    finally:
        pipes.close_server()
        if not is_begun:
            pipes.close()
    return ProcessSshServer(runtime, replica_id, folder, pipes, channel, parent)
