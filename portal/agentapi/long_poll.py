"""Long polls: a sync call stays open until its bell, a newer call of the node, time or shutdown.

An open call owns a coroutine and nothing else.
"""

import asyncio
import random
from collections.abc import Iterator
from contextlib import contextmanager
from uuid import UUID

from agents.contract.calls import SyncResponse
from portal.agentapi import sync
from portal.agentapi.threads import run_in_thread
from portal.asgi_scope import Receive
from portal.live.listener import Bell

# Without jitter, agents that were answered together call again together.
JITTER = 0.2

_open_polls: dict[UUID, Bell] = {}


def is_polling(node_id: UUID) -> bool:
    """Whether the node has a call open in this process."""
    return node_id in _open_polls


def open_poll_count() -> int:
    """Nodes that have a call open in this process."""
    return len(_open_polls)


@contextmanager
def newest_poll(node_id: UUID, bell: Bell) -> Iterator[None]:
    """Make this the node's one open call; an older one is answered now."""
    older = _open_polls.get(node_id)
    if older is not None:
        older.supersede()
    _open_polls[node_id] = bell
    try:
        yield
    finally:
        if _open_polls.get(node_id) is bell:
            del _open_polls[node_id]


async def long_poll(
    bell: Bell, state: sync.SyncState, seconds: float, receive: Receive
) -> SyncResponse | None:
    """The answer, once there is news or the time is up. None if the caller has hung up."""
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
            if bell.is_ended:
                break
            revision, answer = await run_in_thread(sync.sync_news, state=state)
            if answer and not bell.is_ended:
                return answer
            if not rung:
                break
        if bell.is_ended:
            # No news here: the newer call, or the next process, answers with it.
            revision = state.applied_revision
        return await run_in_thread(sync.sync_answer, state=state, revision=revision)
    finally:
        gone.cancel()


async def _hung_up(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
