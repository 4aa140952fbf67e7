"""The terminals of this node: begun and attached by streams, each in a session of its own."""

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from agents.contract.terminal import KEEP_SECONDS, MessageRefused, TerminalTarget
from agents.contract.tunnel import StreamRefusal
from agents.terminals.replica_terminals import OpenTerminal
from agents.terminals.session import TerminalSession
from agents.tunnel.link import IncomingStream, OpenRefused
from agents.tunnel.opening import open_or_refuse

# Of one replica, and of the node: a session keeps up to RING_BYTES.
MAX_OF_REPLICA, MAX_OF_NODE = 8, 64
# Terminals that are opened at once.
OPEN_THREADS = 4

# The attempt, the rank and the terminal's own id.
TerminalKey = tuple[int, int, str]

log = logging.getLogger("agents.terminals")


class NodeTerminals:
    """Used on one event loop."""

    def __init__(
        self,
        open_terminal: OpenTerminal,
        end_leftovers: Callable[[], None] = lambda: None,
        keep_seconds: float = KEEP_SECONDS,
    ) -> None:
        """`end_leftovers`: called once, before the first is opened."""
        self._open_terminal = open_terminal
        self._end_leftovers = end_leftovers
        self._keep_seconds = keep_seconds
        # Also those that are being opened.
        self._sessions: dict[TerminalKey, asyncio.Future[TerminalSession]] = {}
        self._running: set[asyncio.Task[None]] = set()
        self._threads = ThreadPoolExecutor(OPEN_THREADS, thread_name_prefix="terminals")

    async def begin(self) -> None:
        """End what an earlier agent has left."""
        try:
            await asyncio.to_thread(self._end_leftovers)
        except Exception as error:
            log.warning("terminals_left", extra={"why": str(error)})

    async def serve(self, incoming: IncomingStream, target: TerminalTarget) -> None:
        """One client of a terminal, until it goes. Raises OSError if its stream is cut."""
        session = await open_or_refuse(incoming, self._session(target), log, "terminal_failed")
        if session is None:
            return
        incoming.accept()
        try:
            await session.attach(incoming, target)
        except MessageRefused as refused:
            log.warning("terminal_broken", extra={"why": str(refused)})

    async def close(self) -> None:
        """End all of them."""
        for task in self._running:
            task.cancel()
        await asyncio.gather(*self._running, return_exceptions=True)

    async def _session(self, target: TerminalTarget) -> TerminalSession:
        """Raises OpenRefused, and what opening raises."""
        key = (target.attempt, target.rank, target.terminal)
        session = self._sessions.get(key)
        if session is None:
            if not target.is_new:
                raise OpenRefused(StreamRefusal.TERMINAL_GONE)
            siblings = sum(each[:2] == key[:2] for each in self._sessions)
            if siblings >= MAX_OF_REPLICA or len(self._sessions) >= MAX_OF_NODE:
                raise OpenRefused(StreamRefusal.TOO_MANY_TERMINALS)
            session = self._sessions[key] = asyncio.get_running_loop().create_future()
            # Said to whoever waits for it, if anybody still does.
            session.add_done_callback(lambda done: done.cancelled() or done.exception())
            running = asyncio.ensure_future(self._run(key, target, session))
            self._running.add(running)
            running.add_done_callback(self._running.discard)
        # A client that goes meanwhile may come back for what it has begun.
        return await asyncio.shield(session)

    async def _run(
        self,
        key: TerminalKey,
        target: TerminalTarget,
        opening: "asyncio.Future[TerminalSession]",
    ) -> None:
        """From the opening to the end."""
        loop = asyncio.get_running_loop()
        try:
            shell = await loop.run_in_executor(self._threads, self._open_terminal, target)
            session = TerminalSession(shell, target.idle_seconds, self._keep_seconds)
            opening.set_result(session)
            await session.run()
        except Exception as error:
            if opening.done():
                log.exception("terminal_lost")
            else:
                opening.set_exception(error)
        finally:
            opening.cancel()
            del self._sessions[key]
