"""Checks of the machine before Django is loaded: one sentence and exit code 2, never a traceback.

Standard library only and valid in any Python 3, because manage.py runs it first.
"""

import os
import socket
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

MIN_PYTHON = (3, 11)
DEFAULT_PORT = 8000
HOST = "127.0.0.1"
# Programs that the demonstration runs; no wheel has them.
EXAMPLES = Path(__file__).resolve().parents[2] / "docs" / "examples"
# The demonstration starts its own servers; with these set, it would write into real ones.
EXTERNAL_SERVERS = ("TESSERA_DATABASE_URL", "TESSERA_BROKER_URL", "TESSERA_REDIS_URL")


class UnsuitableMachine(Exception):
    """The demonstration cannot run on this machine or with this environment."""


def require_machine(environ: Mapping[str, str]) -> None:
    """Exit with code 2 and one sentence if the demonstration cannot run here."""
    try:
        check_machine(environ)
    except UnsuitableMachine as unfit:
        sys.stderr.write(f"tessera: {unfit}\n")
        raise SystemExit(2) from None


def check_machine(environ: Mapping[str, str]) -> None:
    """Raises UnsuitableMachine. The port comes last: a running demonstration uses it."""
    if sys.version_info < MIN_PYTHON:
        has = ".".join(str(number) for number in sys.version_info[:2])
        raise UnsuitableMachine(f"this is Python {has}: Tessera needs 3.11 or newer.")
    if not sys.platform.startswith("linux"):
        raise UnsuitableMachine(f"the demonstration needs Linux; this is {sys.platform}.")
    if not EXAMPLES.is_dir():
        raise UnsuitableMachine("the demonstration runs in a checkout of Tessera: `make demo`.")
    for name in EXTERNAL_SERVERS:
        if environ.get(name):
            raise UnsuitableMachine(
                f"{name} is set, but the demonstration starts its own servers: unset {name}."
            )
    _require_writable(Path(environ.get("TESSERA_VAR", "var")))
    _require_free(port_from(environ))


def port_from(environ: Mapping[str, str]) -> int:
    """TESSERA_PORT, or 8000, as the settings read it. Raises UnsuitableMachine."""
    text = environ.get("TESSERA_PORT", "")
    if not text.strip():
        return DEFAULT_PORT
    if not text.isascii() or not text.isdecimal() or not 0 < int(text) < 65_536:
        raise UnsuitableMachine(
            f"TESSERA_PORT={text!r} is not a port: set it to a number from 1 to 65535."
        )
    return int(text)


def _require_writable(var: Path) -> None:
    try:
        var.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=var):
            pass
    except OSError as error:
        reason = os.strerror(error.errno or 0)
        raise UnsuitableMachine(
            f"the folder {var} is not writable ({reason}): set TESSERA_VAR to another one."
        ) from error


def _require_free(port: int) -> None:
    with socket.socket() as probe:
        # As the web server does: a recently closed connection does not block the port.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError as error:
            raise UnsuitableMachine(
                f"port {port} is in use or not permitted: set TESSERA_PORT to a free one."
            ) from error
