"""An agent whose machine has lost its address for other nodes starts anew with the next one: links,
reports and names of replicas all begin with it."""

import asyncio
import os
import sys
from collections.abc import Callable, Sequence
from typing import NoReturn

from agents.overlay.interfaces import address_towards, is_own_address

WATCH_SECONDS = 10.0


class AddressChanged(Exception):
    """With the new one."""


async def address_change(
    address: str,
    urls: Sequence[str],
    *,
    seconds: float = WATCH_SECONDS,
    is_own: Callable[[str], bool] = is_own_address,
    towards: Callable[[Sequence[str]], str] = address_towards,
) -> str:
    """Wait until the machine has this address no longer, and another one. Asks the kernel alone
    while it has it. `seconds`: how often."""
    while True:
        await asyncio.sleep(seconds)
        if not address or not is_own(address):
            found = await asyncio.to_thread(towards, urls)
            if found and found != address:
                return found


def start_anew() -> NoReturn:
    """As this process, with the command that it was started with."""
    sys.stderr.flush()
    os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])  # noqa: S606 - its own command
