"""For tests: fast passwords, Celery tasks run eagerly, `var` in a temporary folder."""

import os
import tempfile

os.environ.setdefault("TESSERA_VAR", tempfile.mkdtemp(prefix="tessera-test-"))
# Tests need not wait before a GPU can be partitioned again.
os.environ.setdefault("TESSERA_PARTITION_DWELL_SECONDS", "0")

from portal.settings.base import *  # noqa: F403 - TESSERA_VAR must stand before base reads it
from portal.settings.base import DATABASES, PLATFORM

# A file, because threads share it: connections to an in-memory SQLite database cannot wait for
# locks.
if "sqlite" in str(DATABASES["default"]["ENGINE"]):
    DATABASES["default"]["TEST"] = {"NAME": str(PLATFORM.var / "test.sqlite3")}

# WhiteNoise warns about a missing folder, and warnings are errors here.
(PLATFORM.var / "static").mkdir(parents=True, exist_ok=True)

SECRET_KEY = "test"  # noqa: S105 - not a secret
PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
# pytest captures the logs.
LOGGING_CONFIG = None
CELERY_TASK_ALWAYS_EAGER = True
CELERY_TASK_EAGER_PROPAGATES = True
