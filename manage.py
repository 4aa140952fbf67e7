#!/usr/bin/env python
"""Django's command line, for people; `manage.py demo` starts the whole product on one machine."""

import os
import sys

from django.core.management import execute_from_command_line

from portal.demo.preflight import require_machine
from portal.settings_choice import choose_settings

if __name__ == "__main__":
    choose_settings()
    if sys.argv[1:2] == ["demo"] and not {"-h", "--help"} & set(sys.argv):
        # Settings already write into the var folder; say what is wrong with it before they do.
        require_machine(os.environ)
    execute_from_command_line(sys.argv)
