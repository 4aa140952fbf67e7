"""Holding a sync call open: one per node, ended by its bell, a newer call, time or shutdown.

A held call owns a coroutine and nothing else.
"""

import asyncio
import random
from collections.abc import Iterator
from contextlib import contextmanager
from uuid import UUID

from agents.contract.calls import SyncResponse
from portal.agentapi import sync
from portal.agentapi.http import Receive
from portal.agentapi.threads import run_in_thread
from portal.live.listener import Bell

# Without it, agents that were answered together call again together (sync_scale facts).
JITTER = 0.2

_held: dict[UUID, Bell] = {}


def is_polling(node_id: UUID) -> bool:
    """Whether the node has a call open in this process."""
    return node_id in _held


@contextmanager
def newest_poll(node_id: UUID, bell: Bell) -> Iterator[None]:
    """Make this the node's one held call; an older one is answered now."""
    older = _held.get(node_id)
    if older is not None:
        older.supersede()
    _held[node_id] = bell
    try:
        yield
    finally:
        if _held.get(node_id) is bell:
            del _held[node_id]


async def long_poll(
    bell: Bell, state: sync.SyncState, seconds: float, receive: Receive
) -> SyncResponse | None:
    """The answer, once there is news or the time is up. None: the caller has hung up."""
    loop = asyncio.get_running_loop()
    jittered = seconds * random.uniform(1 - JITTER, 1 + JITTER)  # noqa: S311 - no secret
    end = loop.time() + jittered
    gone = loop.create_task(_hung_up(receive))
    gone.add_done_callback(lambda _: bell.wake())
    revision = state.revision
    try:
        while not bell.is_ended and revision <= state.applied_revision:
            rung = await bell.wait(end - loop.time())
            if gone.done():
                return None
            revision = await run_in_thread(sync.current_revision, standing=state)
            if not rung:
                break
        if bell.is_ended:
            # Nothing to say: whoever replaced this call, or the next process, has the news.
            revision = state.applied_revision
        return await run_in_thread(sync.sync_answer, standing=state, revision=revision)
    finally:
        gone.cancel()


async def _hung_up(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
