"""Asks the Jupyter servers of this node once a minute, and puts into its reports how long each has
been idle."""

import asyncio
import logging
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from agents.contract.documents import (
    DesiredReplica,
    ObservedDocument,
    ObservedReplica,
    ReplicaState,
)
from agents.contract.launcher_names import LauncherName
from agents.contract.notebooks import NotebookActivity
from agents.contract.tunnel import StreamTarget
from agents.launchers.jupyter import LAUNCHER as JUPYTER
from agents.notebooks.kernels import PATHS, idle_minutes, read_answer, request_bytes
from agents.ports.replica_ports import Connect, connect_target
from agents.tunnel.link import OpenRefused

EVERY_SECONDS = 60.0
ANSWER_SECONDS = 5.0
MAX_ANSWER_BYTES = 1 << 20
# Connections that are made at once.
THREADS = 4

log = logging.getLogger("agents.notebooks.watch")


@dataclass(frozen=True, slots=True)
class RunningNotebook:
    replica: str
    target: StreamTarget


class NotebookWatch:
    """`connect`: to ports of replicas. `replicas`: those that the node is to have."""

    def __init__(
        self, connect: Connect, replicas: Callable[[], tuple[DesiredReplica, ...]]
    ) -> None:
        self._connect = connect
        self._replicas = replicas
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="notebooks")
        # Held while a document is reported, so that no older one follows a newer one.
        self._lock = threading.Lock()
        self._document: ObservedDocument | None = None
        self._report: Callable[[ObservedDocument], None] = lambda document: None
        self._idle: Mapping[str, int] = {}

    def tap_reports(
        self, report: Callable[[ObservedDocument], None]
    ) -> Callable[[ObservedDocument], None]:
        """`report`, with what is known of the notebooks in each document."""
        self._report = report

        def tapped(document: ObservedDocument) -> None:
            with self._lock:
                self._document = document
                self._send()

        return tapped

    async def watch_forever(self) -> None:
        """Ends by cancellation only."""
        while True:
            await asyncio.sleep(EVERY_SECONDS)
            try:
                await self.ask_all()
            except Exception:
                log.exception("notebooks_unasked")

    async def ask_all(self) -> None:
        """Ask each once; report again if something has changed."""
        notebooks = self._running()
        minutes = await asyncio.gather(*(self._idle_minutes(each.target) for each in notebooks))
        pairs = zip(notebooks, minutes, strict=True)
        idle = {each.replica: found for each, found in pairs if found is not None}
        with self._lock:
            if idle != self._idle:
                self._idle = idle
                self._send()

    def _send(self) -> None:
        """With the lock."""
        if document := self._document:
            rows = tuple(map(self._completed, document.replicas))
            self._report(replace(document, replicas=rows))

    def _completed(self, seen: ObservedReplica) -> ObservedReplica:
        minutes = self._idle.get(seen.id) if seen.state is ReplicaState.RUNNING else None
        return seen if minutes is None else replace(seen, notebook=NotebookActivity(minutes))

    def _running(self) -> list[RunningNotebook]:
        document = self._document
        seen = document.replicas if document else ()
        running = {each.id for each in seen if each.state is ReplicaState.RUNNING}
        return [
            RunningNotebook(each.id, StreamTarget(each.fence, 0, JUPYTER.port_of(each.command)))
            for each in self._replicas()
            if each.launcher is LauncherName.JUPYTER and each.rank == 0 and each.id in running
        ]

    async def _idle_minutes(self, target: StreamTarget) -> int | None:
        try:
            async with asyncio.timeout(ANSWER_SECONDS * len(PATHS)):
                answers = {path: await self._ask(target, path) for path in PATHS}
            return idle_minutes(answers, datetime.now(UTC))
        except (OpenRefused, OSError, TimeoutError):
            return None
        except Exception:
            # Such as a refusal of the engine: the others are asked nevertheless.
            log.exception("notebook_unasked")
            return None

    async def _ask(self, target: StreamTarget, path: str) -> Any:
        """The JSON of the answer; None if it is none. Raises OpenRefused, OSError, TimeoutError."""
        reader, writer = await connect_target(target, self._connect, self._threads)
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                writer.write(request_bytes(path, target.port))
                data = bytearray()
                while piece := await reader.read(65_536):
                    data += piece
                    if len(data) > MAX_ANSWER_BYTES:
                        return None
            return read_answer(bytes(data))
        finally:
            writer.transport.abort()
