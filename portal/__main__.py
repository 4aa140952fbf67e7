"""Django's command line: `tessera-portal COMMAND` where the wheel is installed, `manage.py COMMAND`
in a checkout. Its `demo` starts the whole product on one machine."""

import os
import sys
from importlib import import_module
from importlib.util import find_spec

from agents.configuration.reading import SettingsError
from portal.demo.preflight import require_machine
from portal.settings_choice import VARIABLE, choose_settings


def main() -> None:
    if find_spec("django") is None:
        sys.exit("The portal's packages are not installed: pip install 'tessera-gpu[portal]'")
    choose_settings()
    if sys.argv[1:2] == ["demo"] and not {"-h", "--help"} & set(sys.argv):
        # Settings already write into the var folder; say what is wrong with it before they do.
        require_machine(os.environ)
    _require_settings()
    import_module("django.core.management").execute_from_command_line(sys.argv)


def _require_settings() -> None:
    """End with the sentences about settings that are wrong, without a traceback."""
    try:
        import_module(os.environ[VARIABLE])
    except SettingsError as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
