"""What is made once for a state of the code, in `var/tests`, and copied by every test process.

Migrating a database takes longer than most tests: the first process does it while others wait, and
a later run on the same code finds it done.
"""

from __future__ import annotations

import fcntl
import functools
import hashlib
import shutil
from collections.abc import Callable
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parent.parent.parent
KEPT = REPOSITORY / "var" / "tests"
# These files have the migrations, and what is made after them: permissions and content types of the
# models, and triggers.
SOURCES = (
    "portal/**/migrations/*.py",
    "portal/**/models.py",
    "portal/**/apps.py",
    "portal/settings/*.py",
    "portal/database/triggers.py",
    "portal/inventory/version.py",
    "portal/planning/changes.py",
    "requirements/portal.lock",
)


def kept(kind: str, make: Callable[[Path], None]) -> Path:
    """The file or folder of this kind for this state of the code. The first caller makes it; it
    replaces that of another state."""
    KEPT.mkdir(parents=True, exist_ok=True)
    path = KEPT / f"{kind}-{_digest()}"
    with (KEPT / f"{kind}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not path.exists():
            for old in KEPT.glob(f"{kind}-*"):
                shutil.rmtree(old) if old.is_dir() else old.unlink()
            make(path)
    return path


@functools.cache
def _digest() -> str:
    state = hashlib.sha256()
    for path in sorted(path for pattern in SOURCES for path in REPOSITORY.glob(pattern)):
        state.update(f"{path}\n".encode() + path.read_bytes())
    return state.hexdigest()[:16]
