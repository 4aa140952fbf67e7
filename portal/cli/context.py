"""The context of a command: environment, clock, and a client that is created when needed."""

import os
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version

import httpx
import typer

from portal.cli.client import Client
from portal.cli.config import PortalAccess, load_access
from portal.cli.exit_codes import CommandFailed, ExitCode
from portal.cli.output import is_terminal


def installed_version() -> str:
    try:
        return version("tessera-gpu")
    except PackageNotFoundError:
        return "0 (from a checkout)"


@dataclass
class CliContext:
    """Tests replace the transport, the pause and whether a person can be asked."""

    env: Mapping[str, str] = field(default_factory=lambda: os.environ)
    transport: httpx.BaseTransport | None = None
    pause: Callable[[float], object] = time.sleep
    now: Callable[[], datetime] = lambda: datetime.now(UTC)
    interactive: bool | None = None
    # How long REST may delay a response until a job has an event. Short, because a reason changes
    # without an event. 0: no long poll.
    long_poll_seconds: int = 5
    _client: Client | None = None

    @property
    def access(self) -> PortalAccess:
        return self.client.access

    @property
    def client(self) -> Client:
        """Raises CommandFailed(not_signed_in)."""
        if self._client is None:
            self._client = self.client_for(load_access(self.env))
        return self._client

    def client_for(self, access: PortalAccess) -> Client:
        return Client(
            access, transport=self.transport, pause=self.pause, version=installed_version()
        )

    def default_project(self) -> str:
        """The saved project, or the caller's only one. Raises CommandFailed(usage)."""
        if self.access.project:
            return self.access.project
        names = [str(row["slug"]) for row in self.client.rows("projects") if not row["archived"]]
        if len(names) != 1:
            hint = f"one of {', '.join(names)}" if names else "but you are in none: ask an admin"
            raise CommandFailed("usage", f"Set --project, {hint}", "tessera whoami", ExitCode.USAGE)
        return names[0]

    def is_interactive(self) -> bool:
        """Whether a person can be asked for input."""
        if self.interactive is not None:
            return self.interactive
        return is_terminal(sys.stdin) and is_terminal(sys.stderr)


def cli_context(context: typer.Context) -> CliContext:
    return context.ensure_object(CliContext)
