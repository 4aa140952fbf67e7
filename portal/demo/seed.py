"""The rows of a demonstration, created on the first start and reused by later ones. Idempotent."""

import os
import secrets
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path

from portal.accounts.models import ApiToken, Membership, Project, Role, TokenScope, User
from portal.accounts.services import membership_set, token_create, token_revoke
from portal.inventory.models import Node
from portal.inventory.services import node_add, node_invite
from portal.quotas.projects import project_create
from scheduler.core.model.states import NodeStatus

ACTOR = "demo"
PROJECT = "vision"
NODES = ("node-a", "node-b")
TOKEN_NAME = "manage.py demo"  # noqa: S105 - the name in the list of tokens
TOKEN_TTL = timedelta(days=7)


@dataclass
class DemoSeed:
    """What the demonstration needs of its rows."""

    token: ApiToken
    token_text: str
    # Of the users created now.
    passwords: dict[str, str] = field(default_factory=dict)
    # By node; empty for a node that has enrolled.
    join_tokens: dict[str, str] = field(default_factory=dict)


def seed_demo(nodes_home: Path) -> DemoSeed:
    """Create or find the project, its users and nodes, and create a new token for alice."""
    passwords: dict[str, str] = {}
    _user("admin", passwords, is_superuser=True)
    alice = _user("alice", passwords, is_superuser=False)
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
    return DemoSeed(token=token, token_text=text, passwords=passwords, join_tokens=join_tokens)


def secret_key(var: Path) -> str:
    """This installation's secret key, created once and readable only by its owner."""
    path = var / "secret-key"
    if not path.exists():
        with os.fdopen(os.open(path, os.O_CREAT | os.O_WRONLY | os.O_EXCL, 0o600), "w") as file:
            file.write(secrets.token_urlsafe(64))
    return path.read_text("utf-8").strip()


def _user(name: str, passwords: dict[str, str], *, is_superuser: bool) -> User:
    user = User.objects.filter(username=name).first()
    if user is not None:
        return user
    passwords[name] = secrets.token_urlsafe(12)
    if is_superuser:
        return User.objects.create_superuser(name, password=passwords[name])
    return User.objects.create_user(name, password=passwords[name])


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
