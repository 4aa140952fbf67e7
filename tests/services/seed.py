"""Seeds a fresh database for the service tests: run as a program, prints what the tests need."""

import hashlib
import json
import os
import secrets
import sys
from datetime import timedelta

import django

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "portal.settings.dev")
django.setup()

from django.utils import timezone  # noqa: E402

from portal.accounts.models import ApiToken, Membership, Project, Role, TokenScope, User  # noqa: E402
from portal.inventory.models import JoinToken, Node  # noqa: E402
from portal.quotas.models import Quota  # noqa: E402

# People who have never asked for anything: one for each module that looks at somebody's own work.
NEWCOMERS = ("nora", "wren", "theo", "june", "sami")
OTHERS = dict.fromkeys(NEWCOMERS, Role.MEMBER) | {"ada": Role.ADMIN}


def main(nodes: list[str]) -> None:
    password = secrets.token_urlsafe(12)
    alice = User.objects.create_user("alice", password=password)
    # A job of more than half a day waits until ada, who leads the project, approves it.
    project = Project.objects.create(slug="vision", name="Vision", approval_seconds=12 * 3600)
    Membership.objects.create(project=project, user=alice, role=Role.MEMBER)
    for name, role in OTHERS.items():
        user = User.objects.create(username=name, password=alice.password)
        Membership.objects.create(project=project, user=user, role=role)
    units = 64 * 56_000
    Quota.objects.create(project=project, limit_units=units, guard_units=units)
    _, token = ApiToken.objects.create(user=alice, name="tests", scope=TokenScope.WRITE)
    join = {name: _join(name) for name in nodes}
    print(json.dumps({"token": token, "password": password, "join": join}))


def _join(name: str) -> str:
    token = secrets.token_urlsafe(32)
    JoinToken.objects.create(
        node=Node.objects.create(name=name),
        digest=hashlib.sha256(token.encode()).hexdigest(),
        expires_at=timezone.now() + timedelta(hours=1),
    )
    return token


if __name__ == "__main__":
    main(sys.argv[1:])
