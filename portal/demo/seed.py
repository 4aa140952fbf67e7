"""The rows of a demonstration, created on the first start and reused by later ones. Idempotent."""

import os
import secrets
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path

from django.db import transaction

from portal.accounts.models import ApiToken, Membership, Project, Role, TokenScope, User
from portal.accounts.profiles import user_save
from portal.accounts.services import membership_set, token_create, token_revoke
from portal.inventory.models import Node
from portal.inventory.services import node_add, node_invite
from portal.quotas.projects import project_create
from scheduler.core.model.states import NodeStatus

ACTOR = "demo"
PROJECT = "vision"
ADMIN, MEMBER = PEOPLE = ("admin", "alice")
PASSWORD_BYTES = 12
NODES = ("node-a", "node-b")
TOKEN_NAME = "manage.py demo"  # noqa: S105 - the name in the list of tokens
TOKEN_TTL = timedelta(days=7)


@dataclass
class DemoSeed:
    """What the demonstration needs of its rows."""

    token: ApiToken
    token_text: str
    # By node; empty for a node that has enrolled.
    join_tokens: dict[str, str] = field(default_factory=dict)


def create_people() -> dict[str, str]:
    """Create the users that are missing, all or none. Returns the passwords of those, by name:
    nothing else knows them, so print them before anything that may fail."""
    made: dict[str, str] = {}
    with transaction.atomic():
        for name in PEOPLE:
            if not User.objects.filter(username=name).exists():
                made[name] = secrets.token_urlsafe(PASSWORD_BYTES)
                create = User.objects.create_user
                create(
                    name, password=made[name], is_superuser=name == ADMIN, is_staff=name == ADMIN
                )
    return made


def replace_passwords() -> dict[str, str]:
    """New passwords for the users of the demonstration, by name; empty if there are none."""
    made: dict[str, str] = {}
    with transaction.atomic():
        for user in User.objects.filter(username__in=PEOPLE).order_by("username"):
            made[user.username] = secrets.token_urlsafe(PASSWORD_BYTES)
            user.set_password(made[user.username])
            user_save(user=user, changed=["password"], actor=ACTOR)
    return made


def seed_demo(nodes_home: Path) -> DemoSeed:
    """Create or find the project and its nodes, and create a new token for alice."""
    alice = User.objects.get(username=MEMBER)
    project = Project.objects.filter(slug=PROJECT).first()
    project = project or project_create(slug=PROJECT, name="Vision", actor=ACTOR)
    if not Membership.objects.filter(project=project, user=alice).exists():
        membership_set(project=project, user=alice, role=Role.MEMBER, actor=ACTOR)
    join_tokens = {
        name: _join_token(name, nodes_home / name) for name in NODES if not _is_retired(name)
    }
    for old in ApiToken.objects.filter(user=alice, name=TOKEN_NAME):
        token_revoke(token=old, actor=ACTOR)
    token, text = token_create(
        user=alice, name=TOKEN_NAME, scope=TokenScope.WRITE, ttl=TOKEN_TTL, actor=ACTOR
    )
    return DemoSeed(token=token, token_text=text, join_tokens=join_tokens)


def secret_key(var: Path) -> str:
    """This installation's secret key, created once and readable only by its owner."""
    path = var / "secret-key"
    if not path.exists():
        with os.fdopen(os.open(path, os.O_CREAT | os.O_WRONLY | os.O_EXCL, 0o600), "w") as file:
            file.write(secrets.token_urlsafe(64))
    return path.read_text("utf-8").strip()


def _join_token(name: str, home: Path) -> str:
    """A join token, or empty if the node has enrolled."""
    node = Node.objects.filter(name=name).first()
    if node is None:
        return node_add(name=name, actor=ACTOR)[1]
    if node.public_key and (home / "agent" / "node-id").exists():
        return ""
    return node_invite(node=node, actor=ACTOR)


def _is_retired(name: str) -> bool:
    return Node.objects.filter(name=name, status=NodeStatus.RETIRED).exists()
