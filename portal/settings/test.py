"""For the test suite: fast passwords, tasks run where they are rung, var in a temporary folder."""

import os
import tempfile

os.environ.setdefault("TESSERA_VAR", tempfile.mkdtemp(prefix="tessera-test-"))
# A test that asks for a GPU carved anew does not wait minutes for it.
os.environ.setdefault("TESSERA_PARTITION_DWELL_SECONDS", "0")

from portal.settings.base import *  # noqa: F403 - TESSERA_VAR must stand before base reads it
from portal.settings.base import DATABASES, PLATFORM

# A file, because several threads share it: SQLite's memory databases know no waiting for a lock.
if "sqlite" in str(DATABASES["default"]["ENGINE"]):
    DATABASES["default"]["TEST"] = {"NAME": str(PLATFORM.var / "test.sqlite3")}

# Whitenoise warns of a missing folder, and warnings are errors here.
(PLATFORM.var / "static").mkdir(parents=True, exist_ok=True)

SECRET_KEY = "test"  # noqa: S105 - not a secret
PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
# pytest catches what is logged.
LOGGING_CONFIG = None
CELERY_TASK_ALWAYS_EAGER = True
CELERY_TASK_EAGER_PROPAGATES = True
