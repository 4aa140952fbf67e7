"""Open what a stream is for, or refuse the stream."""

import logging
from collections.abc import Awaitable
from typing import TypeVar

from agents.contract.tunnel import StreamRefusal
from agents.tunnel.link import IncomingStream, OpenRefused

T = TypeVar("T")


async def open_or_refuse(
    incoming: IncomingStream, opening: Awaitable[T], log: logging.Logger, failure: str
) -> T | None:
    """What `opening` returns, for the caller to accept the stream with; None once it was refused:
    with the reason of an OpenRefused, or as failed. `failure`: the event in the log of whatever
    else it raises."""
    try:
        return await opening
    except OpenRefused as refused:
        incoming.refuse(refused.why)
    except Exception as error:
        log.warning(failure, extra={"why": str(error)})
        incoming.refuse(StreamRefusal.FAILED)
    return None
