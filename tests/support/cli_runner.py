"""Runs the `tessera` command against the real REST, in this process."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
from django.core.signals import request_finished, request_started
from django.core.wsgi import get_wsgi_application
from django.db import close_old_connections
from typer.testing import CliRunner

from portal.cli.context import CliContext
from portal.cli.main import app


def cli_output(token: str, home: Path, *words: str) -> str:
    """What the command prints; it must succeed."""
    env = {
        "TESSERA_URL": "http://testserver",
        "TESSERA_TOKEN": token,
        "TESSERA_CONFIG": str(home / "config.yaml"),
    }
    transport = httpx.WSGITransport(app=get_wsgi_application())
    with _the_connection_stays_open():
        tools = CliContext(env=env, transport=transport, interactive=False)
        done = CliRunner().invoke(app, list(words), obj=tools)
    assert done.exit_code == 0, done.stderr
    return done.stdout


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
