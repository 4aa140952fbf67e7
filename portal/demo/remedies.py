"""Commands that the demonstration prints: each works as it is printed. Standard library only."""

import os
import shlex
import sys
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def manage_command(*arguments: str, environ: Mapping[str, str]) -> str:
    """`manage.py ARGUMENTS` with these variables, for a shell in the folder that this process is
    in. Names are short where they may be: `TESSERA_PORT=8001 .venv/bin/python manage.py demo`."""
    variables = [f"{name}={shlex.quote(value)}" for name, value in environ.items()]
    words = [_short(Path(sys.executable)), _short(ROOT / "manage.py"), *arguments]
    return " ".join([*variables, *map(shlex.quote, words)])


def var_variable(var: Path) -> dict[str, str]:
    """TESSERA_VAR, unless the folder is the one that a process without it uses."""
    default = Path.cwd() / "var"
    return {} if var.resolve() == default.resolve() else {"TESSERA_VAR": str(var.resolve())}


def _short(path: Path) -> str:
    """Relative to the working folder, if it lies below; links stay as they are."""
    return os.path.relpath(path) if path.is_relative_to(Path.cwd()) else str(path)
