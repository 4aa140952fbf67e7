"""The tunnels that this process holds, by node: one each, the newest."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from uuid import UUID

from agents.tunnel.link import TunnelLink

# Of RFC 6455: the range that applications use. An agent dials again after it, as after any end.
REPLACED = 4001

_held: dict[UUID, TunnelLink] = {}
# The closings of tunnels that were replaced: a task is kept until it is done.
_closings: set[asyncio.Task[None]] = set()


def held_tunnel(node_id: UUID) -> TunnelLink | None:
    return _held.get(node_id)


def held_tunnel_count() -> int:
    return len(_held)


@contextmanager
def hold_tunnel(node_id: UUID, link: TunnelLink) -> Iterator[None]:
    """Make it the node's tunnel; an older one, of a connection that is gone by now, is closed."""
    if older := _held.get(node_id):
        closing = asyncio.ensure_future(older.close(REPLACED, "the node opened another tunnel"))
        _closings.add(closing)
        closing.add_done_callback(_closings.discard)
    _held[node_id] = link
    try:
        yield
    finally:
        if _held.get(node_id) is link:
            del _held[node_id]
