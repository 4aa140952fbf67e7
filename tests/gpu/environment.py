"""Finds a Python that has pytest and nvidia-ml-py, or makes one in .venv-gpu.

The standard library alone. Versions and hashes are those of requirements/dev.lock; pip takes them
from where it is configured to.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
OWN = ROOT / ".venv-gpu"
LOCK = ROOT / "requirements" / "dev.lock"
NEEDED = ("pytest", "nvidia-ml-py", "iniconfig", "packaging", "pluggy", "pygments")
# In place of a list of modules and versions: everything that the suite imports.
PROBE = "import sys; assert sys.version_info >= (3, 11); import tests.gpu.session"
MEND = "Give a python3 (3.11 or newer) pytest and nvidia-ml-py, then run it again."


class Missing(Exception):
    """No Python that will do; the sentence says what to do."""


def interpreter() -> str:
    """The running Python if it will do, else the checkout's, else the machine's, else one made
    here. Raises Missing."""
    for python in candidates():
        if serves(python):
            return python
    return make(OWN)


def candidates() -> "list[str]":
    found = [sys.executable, str(ROOT / ".venv" / "bin" / "python"), shutil.which("python3") or ""]
    found += [str(OWN / "bin" / "python")]
    return [python for n, python in enumerate(found) if python and python not in found[:n]]


def serves(python: str) -> bool:
    """Whether the suite's imports work there."""
    if not Path(python).exists():
        return False
    return _run(python, "-c", PROBE).returncode == 0


def make(venv: Path, lock: Path = LOCK) -> str:
    """A virtual environment with what the suite needs; answers its Python. Raises Missing."""
    python = str(venv / "bin" / "python")
    base = _new_enough()
    sys.stderr.write(f"test-gpu: making {venv.name} with pytest and nvidia-ml-py\n")
    made = _run(base, "-m", "venv", "--clear", str(venv))
    if made.returncode:
        raise Missing(f"{base} -m venv fails: {_last(made)} {MEND}")
    with tempfile.TemporaryDirectory() as folder:
        wanted = Path(folder) / "requirements.txt"
        wanted.write_text(requirements(lock.read_text("utf-8")), "utf-8")
        pip = (python, "-m", "pip", "-q", "--disable-pip-version-check", "install")
        done = _run(*pip, "--require-hashes", "--requirement", str(wanted))
    if done.returncode:
        raise Missing(f"pip could not install pytest and nvidia-ml-py: {_last(done)} {MEND}")
    return python


def requirements(lock: str) -> str:
    """The lines of a lock file, hashes included, that are about what the suite needs."""
    kept, keeps = [], False
    for line in lock.splitlines():
        if not line[:1].isspace():
            keeps = line.split("==")[0] in NEEDED
        if keeps:
            kept.append(line)
    return "\n".join(kept) + "\n"


def _new_enough() -> str:
    """The running Python, or the first newer one of the machine. Raises Missing."""
    names = ("python3", "python3.14", "python3.13", "python3.12", "python3.11")
    for python in (sys.executable, *filter(None, map(shutil.which, names))):
        if _run(python, "-c", "import sys; sys.exit(sys.version_info < (3, 11))").returncode == 0:
            return python
    raise Missing("test-gpu needs Python 3.11 or newer.")


def _run(*command: str) -> "subprocess.CompletedProcess[str]":
    environment = dict(os.environ, PYTHONPATH=str(ROOT))
    return subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )


def _last(done: "subprocess.CompletedProcess[str]") -> str:
    """The last line that a program wrote, as it is the one that says why."""
    lines = (done.stdout + done.stderr).strip().splitlines()
    last: str | None = next(iter(reversed(lines)), None)
    return last or f"it ended with {done.returncode}."
