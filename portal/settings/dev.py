"""One machine, SQLite, no services: what `manage.py demo` and a developer use."""

from portal.settings.base import *  # noqa: F403 - settings modules inherit by star, Django's way
from portal.settings.base import PLATFORM, SECRET_KEY, STATIC_ROOT

DEBUG = False
# Serve static files from their folders, so that no collectstatic is needed.
WHITENOISE_USE_FINDERS = True
WHITENOISE_AUTOREFRESH = True
if PLATFORM.var.is_dir():  # a command in the wrong folder leaves nothing behind
    STATIC_ROOT.mkdir(parents=True, exist_ok=True)
SECRET_KEY = SECRET_KEY or "only-for-this-machine-" + str(PLATFORM.var.resolve())
