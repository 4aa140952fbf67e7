"""Runs the `tessera` command against the real REST, in this process."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path

import httpx
from django.core.signals import request_finished, request_started
from django.core.wsgi import get_wsgi_application
from django.db import close_old_connections
from typer.testing import CliRunner, Result

from portal.accounts.models import TokenScope, User
from portal.accounts.services import token_create
from portal.cli.context import CliContext
from portal.cli.main import app


@dataclass
class Person:
    """A user with a token, at a shell. A call runs a command with these words."""

    user: User
    home: Path
    scope: TokenScope = TokenScope.WRITE
    variables: Mapping[str, str] = field(default_factory=dict)
    """Of the shell."""

    def __post_init__(self) -> None:
        ttl = timedelta(days=1)
        _, self.token = token_create(user=self.user, name="cli", scope=self.scope, ttl=ttl)

    def __call__(self, *words: str, input: str = "") -> Result:
        env = {
            "TESSERA_URL": "http://testserver",
            "TESSERA_TOKEN": self.token,
            "TESSERA_CONFIG": str(self.home / "config.yaml"),
            **self.variables,
        }
        transport = httpx.WSGITransport(app=get_wsgi_application())
        tools = CliContext(
            env=env, transport=transport, pause=self.passes, interactive=False, long_poll_seconds=0
        )
        with _the_connection_stays_open():
            return CliRunner().invoke(app, list(words), obj=tools, input=input)

    def output(self, *words: str) -> str:
        """What the command prints; it must succeed."""
        done = self(*words)
        assert done.exit_code == 0, done.stderr
        return done.stdout

    def passes(self, seconds: float) -> None:
        """Time that passes while the command waits; a test gives it something to happen."""
        raise AssertionError("nothing is expected to happen")


@contextmanager
def _the_connection_stays_open() -> Iterator[None]:
    """As Django's own test client does: a request's end must not close the test's connection."""
    signals = (request_started, request_finished)
    for signal in signals:
        signal.disconnect(close_old_connections)
    try:
        yield
    finally:
        for signal in signals:
            signal.connect(close_old_connections)
