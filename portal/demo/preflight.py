"""Checks of the machine before Django is loaded: one sentence and exit code 2, never a traceback.

Standard library only and valid in any Python 3, because manage.py runs it first.
"""

import contextlib
import fcntl
import os
import socket
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from portal.demo.remedies import ROOT, manage_command, var_variable

MIN_PYTHON = (3, 11)
DEFAULT_PORT = 8000
HOST = "127.0.0.1"
# Programs that the demonstration runs; no wheel has them.
EXAMPLES = ROOT / "docs" / "examples"
# In the folder `var`: held and written by a running demonstration, and the database.
LOCK, DATABASE = "demo.lock", "tessera.sqlite3"
NEW_PASSWORDS = "--new-passwords"
# The demonstration starts its own servers; with these set, it would write into real ones.
EXTERNAL_SERVERS = ("TESSERA_DATABASE_URL", "TESSERA_BROKER_URL", "TESSERA_REDIS_URL")


class UnsuitableMachine(Exception):
    """The demonstration cannot run on this machine or with this environment."""


def require_machine(environ: Mapping[str, str], arguments: Sequence[str] = ()) -> None:
    """Exit with code 2 and one sentence if `demo ARGUMENTS` cannot run here."""
    try:
        if NEW_PASSWORDS in arguments:
            check_begun(environ)
        else:
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
    _require_own_servers(environ)
    var = var_from(environ)
    _require_writable(var)
    if _is_running(var):
        raise UnsuitableMachine(running_sentence(var))
    _require_free(port_from(environ), var)


def check_begun(environ: Mapping[str, str]) -> None:
    """Raises UnsuitableMachine if no demonstration was ever started in the folder."""
    _require_own_servers(environ)
    var = var_from(environ)
    if not (var / DATABASE).is_file():
        begin = manage_command("demo", environ=var_variable(var))
        raise UnsuitableMachine(f"no demonstration was started in {var.absolute()} yet: {begin}")


def var_from(environ: Mapping[str, str]) -> Path:
    """TESSERA_VAR, or `var`, as the settings read it."""
    return Path(environ.get("TESSERA_VAR") or "var")


def running_sentence(var: Path) -> str:
    """That another demonstration has the folder, where it is, and how to start one beside it."""
    try:
        url = (var / LOCK).read_text("utf-8") or "its address"
    except OSError:
        url = "its address"
    beside = {"TESSERA_VAR": f"{var.absolute()}-2", "TESSERA_PORT": str(free_port())}
    return (
        f"a demonstration is running in {var.absolute()}: open {url}, or start one beside it: "
        f"{manage_command('demo', environ=beside)}"
    )


def free_port() -> int:
    """A port above the default that nobody listens on."""
    for port in range(DEFAULT_PORT + 1, DEFAULT_PORT + 1_000):
        with contextlib.suppress(OSError):
            _bind(port)
            return port
    return DEFAULT_PORT


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


def _require_own_servers(environ: Mapping[str, str]) -> None:
    for name in EXTERNAL_SERVERS:
        if environ.get(name):
            raise UnsuitableMachine(
                f"{name} is set, but the demonstration starts its own servers: unset {name}"
            )


def _require_writable(var: Path) -> None:
    try:
        var.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=var):
            pass
    except OSError as error:
        reason = os.strerror(error.errno or 0)
        elsewhere = manage_command("demo", environ={"TESSERA_VAR": _other_folder()})
        raise UnsuitableMachine(
            f"the folder {var} of TESSERA_VAR is not writable ({reason}); in another one: "
            f"{elsewhere}"
        ) from error


def _is_running(var: Path) -> bool:
    """Whether another process holds the lock of the folder."""
    try:
        with (var / LOCK).open("rb") as lock:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except FileNotFoundError:
        return False
    except OSError:
        return True
    return False


def _require_free(port: int, var: Path) -> None:
    try:
        _bind(port)
    except OSError as error:
        variables = {**var_variable(var), "TESSERA_PORT": str(free_port())}
        raise UnsuitableMachine(
            f"port {port} of TESSERA_PORT is in use or not permitted; with a free one: "
            f"{manage_command('demo', environ=variables)}"
        ) from error


def _bind(port: int) -> None:
    """Raises OSError if the port cannot be served."""
    with socket.socket() as probe:
        # As the web server does: a recently closed connection does not block the port.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        probe.bind((HOST, port))


def _other_folder() -> str:
    return str(Path.home() / "tessera-var")
