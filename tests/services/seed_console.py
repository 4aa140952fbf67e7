"""Seeds a database for the console's browser tests: run as a program, prints the password.

A node with two GPUs, of which one is busy; two jobs above their project's threshold; one project
admin, ada; one platform admin, root.
"""

import json
import os
import secrets

import django

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "portal.settings.dev")
django.setup()

from portal.accounts.models import Membership, Role, User  # noqa: E402
from portal.accounts.services import project_share_set  # noqa: E402
from tests.support.rows import a_job, a_node, a_project, settle  # noqa: E402


def main() -> None:
    password = secrets.token_urlsafe(12)
    alice = User.objects.create_user("alice", password=password)
    ada = User.objects.create_user("ada", password=password)
    User.objects.create_superuser("root", password=password)
    vision = a_project("vision", alice, gpus=2)
    Membership.objects.create(project=vision, user=ada, role=Role.ADMIN)
    node = a_node("gpu-01", gpus=2)
    a_job(alice, vision, name="long-run", device={"gpus": 1})
    settle(node)
    project_share_set(project=vision, actor="root", approval_units=0)
    for name in ("first-ask", "second-ask"):
        a_job(alice, vision, name=name)
    print(json.dumps({"password": password}))


if __name__ == "__main__":
    main()
