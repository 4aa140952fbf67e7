"""What a machine must have before Django is loaded: one sentence and exit 2, never a traceback.

Standard library only, and readable by any Python 3: manage.py asks it before anything else.
"""

import os
import socket
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

OLDEST_PYTHON = (3, 11)
DEFAULT_PORT = 8000
HOST = "127.0.0.1"
# The demonstration brings its own servers; with these it would write into somebody's real ones.
FOREIGN = ("TESSERA_DATABASE_URL", "TESSERA_BROKER_URL", "TESSERA_REDIS_URL")


class Unfit(Exception):
    """This machine, or how the command was called, does not allow the demonstration."""


def require_machine(environ: Mapping[str, str]) -> None:
    """Exit 2 with one sentence where the demonstration cannot run here."""
    try:
        check_machine(environ)
    except Unfit as unfit:
        sys.stderr.write(f"tessera: {unfit}\n")
        raise SystemExit(2) from None


def check_machine(environ: Mapping[str, str]) -> None:
    """Raises Unfit. The port comes last, because a running demonstration holds it."""
    if sys.version_info < OLDEST_PYTHON:
        has = ".".join(str(number) for number in sys.version_info[:2])
        raise Unfit(f"this is Python {has}: Tessera needs 3.11 or newer.")
    if not sys.platform.startswith("linux"):
        raise Unfit(f"the demonstration runs on Linux, and this is {sys.platform}.")
    for name in FOREIGN:
        if environ.get(name):
            raise Unfit(f"{name} is set, but the demonstration uses its own servers: unset {name}.")
    _require_writable(Path(environ.get("TESSERA_VAR", "var")))
    _require_free(port_from(environ))


def port_from(environ: Mapping[str, str]) -> int:
    """TESSERA_PORT, or 8000. Raises Unfit."""
    text = environ.get("TESSERA_PORT", str(DEFAULT_PORT))
    if not text.isascii() or not text.isdecimal() or not 0 < int(text) < 65_536:
        raise Unfit(f"TESSERA_PORT={text!r} is no port: set it to a number from 1 to 65535.")
    return int(text)


def _require_writable(var: Path) -> None:
    try:
        var.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=var):
            pass
    except OSError as error:
        reason = os.strerror(error.errno or 0)
        raise Unfit(
            f"the folder {var} cannot be written ({reason}): set TESSERA_VAR to one that can."
        ) from error


def _require_free(port: int) -> None:
    with socket.socket() as probe:
        # As the web server does: a connection that was closed a moment ago does not count.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError as error:
            raise Unfit(
                f"port {port} is taken or not allowed here: set TESSERA_PORT to a free one."
            ) from error
