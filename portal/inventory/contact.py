"""Contact of a node: when it last called, and since when it has done so without a gap."""

from datetime import datetime, timedelta

from django.conf import settings

from portal.inventory.models import Node


def longest_pause() -> timedelta:
    """Between two calls of a node in contact: after it, the node is unreachable. Counted from the
    end of the longest call that a node may hold open."""
    knobs = settings.PLATFORM
    return timedelta(seconds=knobs.unreachable_seconds + knobs.hold_seconds)


def contact_columns(node: Node, now: datetime) -> dict[str, datetime]:
    """What a call changes of its node's row. It asks for no status: nobody has judged the node
    while the portal itself was away."""
    is_kept = node.last_seen_at is not None and now - node.last_seen_at <= longest_pause()
    return {"last_seen_at": now} if is_kept else {"last_seen_at": now, "contact_since": now}
