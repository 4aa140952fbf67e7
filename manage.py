#!/usr/bin/env python
"""Django's command line, for people; `manage.py demo` starts the whole product on one machine."""

import os
import sys

from django.core.management import execute_from_command_line

if __name__ == "__main__":
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "portal.settings.dev")
    execute_from_command_line(sys.argv)
