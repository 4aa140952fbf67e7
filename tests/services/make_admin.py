"""Makes alice a platform admin; prints a token of hers with which admins' calls are made."""

import json

import django

django.setup()

from portal.accounts.models import ApiToken, TokenScope, User  # noqa: E402

if __name__ == "__main__":
    User.objects.filter(username="alice").update(is_superuser=True, is_staff=True)
    alice = User.objects.get(username="alice")
    _, token = ApiToken.objects.create(user=alice, name="admin", scope=TokenScope.ADMIN)
    print(json.dumps({"token": token}))
