"""For the test suite: fast passwords, tasks run where they are rung, var in a temporary folder."""

import os
import tempfile

os.environ.setdefault("TESSERA_VAR", tempfile.mkdtemp(prefix="tessera-test-"))

from portal.settings.base import *  # noqa: E402, F403 - TESSERA_VAR must stand before base reads it

SECRET_KEY = "test"  # noqa: S105 - not a secret
PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
CELERY_TASK_ALWAYS_EAGER = True
CELERY_TASK_EAGER_PROPAGATES = True
