"""Make .venv and install one lock file into it; a second run is instant.

Usage: python3 requirements/install.py dev|portal|agent|cli|saml|ldap. Runs on a bare machine with
the standard library alone, and says in one sentence what is missing.
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
# A wider set contains the narrower ones, so its stamp serves them too.
SERVED_BY = {
    "dev": ("dev",),
    "portal": ("portal", "dev"),
    "agent": ("agent", "portal", "dev"),
    "cli": ("cli", "portal", "dev"),
    # On top of the portal.
    "saml": ("saml", "dev"),
    "ldap": ("ldap",),
}
CERTIFICATES = Path("/etc/ssl/certs/ca-certificates.crt")


def main(arguments: list[str]) -> None:
    """Install the named set; exit with one sentence where that cannot be done."""
    if sys.version_info < (3, 11):  # noqa: UP036 - this is where an older one is told so
        sys.exit(f"Tessera needs Python 3.11 or newer; python3 here is {sys.version.split()[0]}.")
    if len(arguments) != 1 or arguments[0] not in SERVED_BY:
        sys.exit(f"Usage: python3 requirements/install.py {'|'.join(SERVED_BY)}")
    wanted = arguments[0]
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
    """The file that says this very lock file is installed."""
    digest = hashlib.sha256(lock(name).read_bytes()).hexdigest()[:16]
    return VENV / f"installed-{name}-{digest}"


def make_venv() -> None:
    """A virtual environment with pip; Debian packs the module that makes one apart."""
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
    """Try to make it; the empty string is success."""
    made = run(sys.executable, "-m", "venv", "--clear", str(VENV), quiet=True)
    return "" if made.returncode == 0 else (made.stdout + made.stderr).strip()


def apt_get(*arguments: str) -> None:
    run("env", "DEBIAN_FRONTEND=noninteractive", "apt-get", "-qq", *arguments)


def install(path: Path) -> None:
    """By uv for speed; by pip where uv cannot reach the registry that pip is configured for."""
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
    say("uv could not install them; pip tries, with its own configuration")
    if run(*pip, *hashed).returncode:
        sys.exit(f"{path.name} could not be installed: see the message above.")


def run(*command: str, quiet: bool = False) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, capture_output=quiet, text=True, check=False)  # noqa: S603 - fixed words and our own paths


def say(sentence: str) -> None:
    sys.stdout.write(f"tessera: {sentence}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main(sys.argv[1:])
