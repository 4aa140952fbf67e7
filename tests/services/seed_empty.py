"""Seeds a portal of which there is nothing but its first admin: run as a program, prints what the
tests need."""

import json
import os
import secrets

import django

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "portal.settings.dev")
django.setup()

from portal.accounts.models import User  # noqa: E402

if __name__ == "__main__":
    password = secrets.token_urlsafe(12)
    User.objects.create_superuser("root", password=password)
    print(json.dumps({"password": password, "join": {}}))
