"""What every command has at hand: environment, clock, and a client once it is needed."""

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
from portal.cli.config import Access, access
from portal.cli.output import is_terminal


def own_version() -> str:
    try:
        return version("tessera-gpu")
    except PackageNotFoundError:
        return "0 (from a checkout)"


@dataclass
class Tools:
    """Tests give their own transport, pause and answers of a terminal."""

    env: Mapping[str, str] = field(default_factory=lambda: os.environ)
    transport: httpx.BaseTransport | None = None
    pause: Callable[[float], object] = time.sleep
    now: Callable[[], datetime] = lambda: datetime.now(UTC)
    asks: bool | None = None
    # How long REST may hold an answer until a job has an event; its reason changes without one.
    # 0 asks without holding.
    hold_seconds: int = 5
    _client: Client | None = None

    @property
    def access(self) -> Access:
        return self.client.access

    @property
    def client(self) -> Client:
        """Raises Failed(not_signed_in)."""
        if self._client is None:
            self._client = self.client_for(access(self.env))
        return self._client

    def client_for(self, who: Access) -> Client:
        return Client(who, transport=self.transport, pause=self.pause, version=own_version())

    def is_interactive(self) -> bool:
        """Whether somebody sits there who can be asked."""
        if self.asks is not None:
            return self.asks
        return is_terminal(sys.stdin) and is_terminal(sys.stderr)


def tools(context: typer.Context) -> Tools:
    return context.ensure_object(Tools)
