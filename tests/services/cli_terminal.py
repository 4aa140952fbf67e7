"""Commands of `tessera` as a person has them: an environment with their token, and a terminal."""

import fcntl
import os
import select
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tests.services.stack import ROOT

# For `Stack.python`: prints a token of the user, who is an admin of the project if it is named and
# they are new.
NEW_TOKEN = """
from portal.accounts.models import ApiToken, Membership, Project, Role, TokenScope, User
user, made = User.objects.get_or_create(username={name!r})
if made and {project!r}:
    project = Project.objects.get(slug={project!r})
    Membership.objects.create(project=project, user=user, role=Role.ADMIN)
print(ApiToken.objects.create(user=user, name="port", scope=TokenScope.WRITE)[1])
"""


def cli_environment(url: str, token: str, folder: Path) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("TESSERA_")}
    own = {"TESSERA_URL": url, "TESSERA_TOKEN": token, "TESSERA_CONFIG": str(folder / "none")}
    return kept | own


class PtyCommand:
    """A command of `tessera` in a terminal of its own."""

    def __init__(self, words: list[str], environment: dict[str, str]) -> None:
        self.master, slave = os.openpty()
        self.resize(80, 24)
        self.process = subprocess.Popen(
            [sys.executable, "-m", "portal.cli", *words],
            cwd=ROOT,
            env=environment,
            stdin=slave,
            stdout=slave,
            stderr=slave,
            start_new_session=True,
        )
        os.close(slave)
        self.shown = b""

    def resize(self, columns: int, rows: int) -> None:
        size = struct.pack("HHHH", rows, columns, 0, 0)
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, size)

    def type(self, text: str) -> None:
        os.write(self.master, text.encode())

    def until(self, words: bytes) -> bytes:
        """What was shown up to these words."""
        deadline = time.monotonic() + 60
        while words not in self.shown:
            ready, _, _ = select.select([self.master], [], [], deadline - time.monotonic())
            assert ready, self.shown
            self.shown += os.read(self.master, 65_536)
        at = self.shown.index(words) + len(words)
        before, self.shown = self.shown[:at], self.shown[at:]
        return before

    def answers(self, word: bytes) -> bool:
        """Type a command that prints the word: whether the shell does so within a second."""
        half = len(word) // 2
        self.type(f'echo {word[:half].decode()}""{word[half:].decode()}\n')
        deadline = time.monotonic() + 1
        while word not in self.shown and time.monotonic() < deadline:
            if select.select([self.master], [], [], 0.1)[0]:
                self.shown += os.read(self.master, 65_536)
        return word in self.shown

    def exit_code(self) -> int:
        """Reads on, as a terminal does."""
        deadline = time.monotonic() + 60
        while self.process.poll() is None and time.monotonic() < deadline:
            if select.select([self.master], [], [], 0.05)[0]:
                with suppress(OSError):
                    self.shown += os.read(self.master, 65_536)
        return self.process.wait(0)

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self.master)


@contextmanager
def shell(url: str, token: str, words: list[str], folder: Path) -> Iterator[PtyCommand]:
    """`tessera shell` with these words."""
    command = PtyCommand(["shell", *words], cli_environment(url, token, folder))
    try:
        yield command
    finally:
        command.close()
