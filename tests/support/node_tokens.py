"""A node that has said hello, without an agent: for programs that make its calls themselves."""

from datetime import timedelta

from django.utils import timezone

from portal.inventory.credentials import digest_of, new_access_token
from portal.inventory.models import Node


def a_greeted_node(name: str) -> tuple[Node, str]:
    """The node, in its first session, and its access token."""
    node = Node(name=name, epoch=1, token_expires_at=timezone.now() + timedelta(hours=9))
    token = new_access_token(node.pk)
    node.token_digest = digest_of(token)
    node.save()
    return node, token
