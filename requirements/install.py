"""Make .venv and install one lock file into it; a second run is instant.

Usage: python3 requirements/install.py dev|portal|agent|cli|saml|ldap|s3. Runs on a bare machine
with the standard library alone, and names what is missing in one sentence.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
PYTHON = VENV / "bin" / "python"
UV = VENV / "bin" / "uv"
UV_PIN = "uv==0.13.8"
# A set contains the narrower ones, so its stamp is valid for them too.
SERVED_BY = {
    "dev": ("dev",),
    "portal": ("portal", "dev"),
    "agent": ("agent", "portal", "dev"),
    "cli": ("cli", "portal", "dev"),
    # Extras of the portal.
    "saml": ("saml", "dev"),
    "ldap": ("ldap",),
    "s3": ("s3", "dev"),
}
# The first lines are for sh, as a folder's name may have spaces; to Python they are a string.
COMMAND = """#!/bin/sh
'''exec' "{python}" "$0" "$@"
' '''
import sys

sys.path[0] = {root!r}

from {module} import {function}

sys.exit({function}())
"""
CERTIFICATES = Path("/etc/ssl/certs/ca-certificates.crt")


def main(arguments: list[str]) -> None:
    """Install the named set, or exit with one sentence."""
    if sys.version_info < (3, 11):  # noqa: UP036 - the message for an older Python
        sys.exit(f"Tessera needs Python 3.11 or newer; python3 here is {sys.version.split()[0]}.")
    if len(arguments) != 1 or arguments[0] not in SERVED_BY:
        sys.exit(f"Usage: python3 requirements/install.py {'|'.join(SERVED_BY)}")
    wanted = arguments[0]
    make_installed(wanted)
    write_commands(VENV, ROOT)


def make_installed(wanted: str) -> None:
    """Bring .venv to the lock file, unless it is there already."""
    if PYTHON.exists() and any(stamp(name).exists() for name in SERVED_BY[wanted]):
        return
    if not os.access(ROOT, os.W_OK):
        sys.exit(f"{ROOT} cannot be written: clone the repository into a folder of yours.")
    make_venv()
    say(f"installing requirements/{wanted}.lock")
    install(lock(wanted))
    for old in VENV.glob(f"installed-{wanted}-*"):
        old.unlink()
    stamp(wanted).touch()


def lock(name: str) -> Path:
    return ROOT / "requirements" / f"{name}.lock"


def stamp(name: str) -> Path:
    """Exists if this version of the lock file is installed."""
    digest = hashlib.sha256(lock(name).read_bytes()).hexdigest()[:16]
    return VENV / f"installed-{name}-{digest}"


def write_commands(venv: Path, root: Path) -> None:
    """The commands of the wheel, in .venv/bin, from the code of this checkout.

    Not by `pip install --editable .`: building needs setuptools, which no lock file has, and would
    ask a registry for it.
    """
    import tomllib  # noqa: PLC0415 - an older Python gets a sentence first

    declared = tomllib.loads((root / "pyproject.toml").read_text("utf-8"))["project"]["scripts"]
    for name, target in declared.items():
        module, _, function = target.partition(":")
        program = COMMAND.format(
            python=venv / "bin" / "python", root=str(root), module=module, function=function
        )
        path = venv / "bin" / name
        if not path.exists() or path.read_text("utf-8") != program:
            new = path.with_name(f".{name}-{os.getpid()}")
            new.write_text(program, "utf-8")
            new.chmod(0o755)
            new.replace(path)


def make_venv() -> None:
    """Create the virtual environment. Debian has the module for it in a package of its own."""
    if PYTHON.exists():
        return
    say("making .venv")
    failure = venv_failure()
    if failure and shutil.which("apt-get") and os.geteuid() == 0:
        say("installing Debian's python3-venv")
        apt_get("update")
        apt_get("install", "--yes", "--no-install-recommends", "python3-venv")
        failure = venv_failure()
    if failure:
        shutil.rmtree(VENV, ignore_errors=True)
        sys.exit(f"python3 -m venv fails; on Debian run apt-get install python3-venv.\n{failure}")


def venv_failure() -> str:
    """Create it. Returns the error output, empty on success."""
    made = run(sys.executable, "-m", "venv", "--clear", str(VENV), quiet=True)
    return "" if made.returncode == 0 else (made.stdout + made.stderr).strip()


def apt_get(*arguments: str) -> None:
    run("env", "DEBIAN_FRONTEND=noninteractive", "apt-get", "-qq", *arguments)


def install(path: Path) -> None:
    """With uv for speed, else with pip: uv may not reach the registry that pip is set up for."""
    pip = (str(PYTHON), "-m", "pip", "--disable-pip-version-check", "-q", "install")
    hashed = ("--require-hashes", "--requirement", str(path))
    if not UV.exists() and run(str(PYTHON), "-m", "pip", "--version", quiet=True).returncode:
        run(str(PYTHON), "-m", "ensurepip", quiet=True)
    if not UV.exists() and run(*pip, UV_PIN).returncode:
        sys.exit(f"pip could not install {UV_PIN}: see above; is its package registry reachable?")
    certificates = ("--system-certs",) if CERTIFICATES.exists() else ()
    uv = (str(UV), "pip", "install", "--quiet", "--python", str(PYTHON), *certificates)
    if run(*uv, *hashed).returncode == 0:
        return
    say("uv could not install them; trying pip with its own configuration")
    if run(*pip, *hashed).returncode:
        sys.exit(f"{path.name} could not be installed: see the message above.")


def run(*command: str, quiet: bool = False) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, capture_output=quiet, text=True, check=False)  # noqa: S603 - fixed words and our own paths


def say(sentence: str) -> None:
    sys.stdout.write(f"tessera: {sentence}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main(sys.argv[1:])
