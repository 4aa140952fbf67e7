"""One machine, SQLite, no services: what `manage.py demo` and a developer use."""

from portal.settings.base import *  # noqa: F403 - settings modules inherit by star, Django's way
from portal.settings.base import PLATFORM, SECRET_KEY

DEBUG = False
SECRET_KEY = SECRET_KEY or "only-for-this-machine-" + str(PLATFORM.var.resolve())
