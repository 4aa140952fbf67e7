"""Which settings a process uses if DJANGO_SETTINGS_MODULE is not set.

Those of development have a secret that can be guessed and cookies for plain HTTP, so they are a
default only on a machine that is visibly set up for development: its tests can run, its command is
the demonstration, or one that looks after the demonstration in its folder. Everywhere else a
forgotten variable is an error, not an open door.
"""

import os
import sys
from collections.abc import Mapping, MutableMapping, Sequence
from importlib.util import find_spec
from pathlib import Path

VARIABLE = "DJANGO_SETTINGS_MODULE"
DEVELOPMENT = "portal.settings.dev"
# Commands for users of a demonstration. None of them serves anything.
DEMONSTRATION_COMMANDS = ("token", "changepassword")


class SettingsNotChosen(SystemExit):
    """The process ends with a sentence that says what to set."""


def choose_settings(
    environ: MutableMapping[str, str] = os.environ, arguments: Sequence[str] = sys.argv
) -> None:
    """Set DJANGO_SETTINGS_MODULE unless it is set. Raises SettingsNotChosen."""
    if environ.get(VARIABLE):
        return
    if not _is_demonstration(environ, arguments) and find_spec("pytest") is None:
        raise SettingsNotChosen(
            f"Set {VARIABLE}: to portal.settings.prod for a portal that people use, or to "
            f"{DEVELOPMENT} on your own machine (`make install` sets one up for development)."
        )
    environ[VARIABLE] = DEVELOPMENT


def _is_demonstration(environ: Mapping[str, str], arguments: Sequence[str]) -> bool:
    command = "".join(arguments[1:2])
    folder = Path(environ.get("TESSERA_VAR") or "var")
    return command == "demo" or (
        command in DEMONSTRATION_COMMANDS and (folder / "demo.lock").is_file()
    )
