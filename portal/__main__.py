"""Django's command line: `tessera-portal COMMAND` where the wheel is installed, `manage.py COMMAND`
in a checkout. Its `demo` starts the whole product on one machine."""

import os
import sys
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from agents.configuration.reading import SettingsError
from portal.demo.preflight import require_machine
from portal.demo.remedies import manage_command, var_variable
from portal.settings_choice import VARIABLE, choose_settings

# How SQLite's refusals begin if the file or its tables are missing.
NO_DATABASE = ("unable to open database file", "no such table")


def main() -> None:
    if find_spec("django") is None:
        sys.exit("The portal's packages are not installed: pip install 'tessera-gpu[portal]'")
    choose_settings()
    if sys.argv[1:2] == ["demo"] and not {"-h", "--help"} & set(sys.argv):
        # Settings already write into the var folder; say what is wrong with it before they do.
        require_machine(os.environ, sys.argv[2:])
    _require_settings()
    _run()


def _run() -> None:
    """Django's command line. A database that is not there ends it with what to do."""
    if sys.argv[1:2] == ["migrate"]:
        _make_var_folder()
    operational = import_module("django.db").OperationalError
    try:
        import_module("django.core.management").execute_from_command_line(sys.argv)
    except operational as error:
        if not str(error).startswith(NO_DATABASE):
            raise
        var = _platform().var.absolute()
        sys.exit(
            f"There is no database of Tessera in {var}: set TESSERA_VAR to its folder, or begin a "
            f"new one: {manage_command('migrate', environ=var_variable(var))}"
        )


def _make_var_folder() -> None:
    """Only the command that begins a database makes its folder: no other leaves one behind."""
    _platform().var.mkdir(parents=True, exist_ok=True)


def _platform() -> Any:
    return import_module("django.conf").settings.PLATFORM


def _require_settings() -> None:
    """End with the sentences about settings that are wrong, without a traceback."""
    try:
        import_module(os.environ[VARIABLE])
    except SettingsError as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
