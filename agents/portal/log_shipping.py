"""Ships the logs of replicas to the portal, by offset: the new bytes of all of them in one call."""

import asyncio
import bisect
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial

from agents.contract.calls import MAX_LOG_CHUNK_BYTES
from agents.contract.errors import ContractError, ContractErrorCode
from agents.contract.log_batch import (
    MAX_LOG_BATCH_BYTES,
    MAX_LOG_BATCH_CHUNKS,
    LogChunkResult,
    NewLogBytes,
)
from agents.job_secrets.delivery import ReplicaSecrets
from agents.portal.client import PortalClient, PortalOlder
from agents.runtime.base import ContainerPhase, ContainerStatus, Runtime
from agents.state.journal import Journal

# The agent leaves out a chunk that is refused so: the portal will never take it.
SKIPPED = (ContractErrorCode.TOO_LARGE, ContractErrorCode.REPLICA_UNKNOWN)

log = logging.getLogger("agents.portal.log_shipping")


@dataclass(frozen=True, slots=True)
class NewBytes:
    """What the logs have that the portal has not. `is_cut`: there is more than one call carries."""

    containers: Mapping[str, ContainerStatus]
    shipped: Mapping[str, int]
    chunks: list[NewLogBytes]
    is_cut: bool


@dataclass
class LogShipping:
    """`wake`: replicas that have ended and are shipped may be removed."""

    client: PortalClient
    journal: Journal
    runtime: Runtime
    wake: Callable[[], None]
    secrets: ReplicaSecrets
    # Called in a thread with the bytes that the portal has now: replica, offset, bytes.
    on_shipped: Callable[[str, int, bytes], None] | None = None
    # The portal is older than calls with several logs.
    sends_each_alone: bool = False
    # Whether a replica has a log, as last seen.
    has_logs: bool = False
    # The replica that a call had no room for: the next one begins with it.
    _next: str = ""
    # Replicas whose log was shipped further since the node was last woken for them.
    _grown: set[str] = field(default_factory=set)

    async def ship(self) -> bool:
        """Ship what fits into one call. Whether there is more to send now."""
        found = await asyncio.to_thread(self._new_bytes)
        results = await self._sent(found.chunks) if found.chunks else []
        pairs = zip(found.chunks, results, strict=True)
        ends = {chunk.replica: _end(chunk, result) for chunk, result in pairs}
        self._grown |= ends.keys()
        if found.chunks and self.on_shipped is not None:
            await asyncio.to_thread(self._pass_on, found.chunks, ends)
        first = {
            key: found.shipped.get(key, 0)
            for key, seen in found.containers.items()
            if seen.phase is not ContainerPhase.CREATED and key not in found.shipped
        }
        if first or ends:
            await asyncio.to_thread(self.journal.record_shipped, first | ends)
        ended = {
            key for key, seen in found.containers.items() if seen.phase is ContainerPhase.EXITED
        }
        if first or self._grown & ended:
            self.wake()
        self._grown = (self._grown - ended) & found.containers.keys()
        is_ahead = any(result.code == ContractErrorCode.OFFSET_MISMATCH for result in results)
        return found.is_cut or is_ahead

    def _new_bytes(self) -> NewBytes:
        containers, shipped = self.runtime.containers(), self.journal.shipped_offsets()
        chunks, room = list[NewLogBytes](), MAX_LOG_BATCH_BYTES
        first, self._next, is_cut = self._next, "", False
        self.has_logs = any(s.phase is not ContainerPhase.CREATED for s in containers.values())
        for replica in _beginning_with(first, containers):
            if containers[replica].phase is ContainerPhase.CREATED:
                continue
            if not room or len(chunks) == MAX_LOG_BATCH_CHUNKS:
                self._next, is_cut = replica, True
                break
            limit, offset = min(room, MAX_LOG_CHUNK_BYTES), shipped.get(replica, 0)
            if data := self._read(containers[replica], offset, limit):
                chunks.append(NewLogBytes(replica, offset, data))
                room -= len(data)
                is_cut |= len(data) == limit
        return NewBytes(containers, shipped, chunks, is_cut)

    def _pass_on(self, chunks: list[NewLogBytes], ends: Mapping[str, int]) -> None:
        for chunk in chunks:
            size = max(0, ends[chunk.replica] - chunk.offset)
            if self.on_shipped is not None:
                self.on_shipped(chunk.replica, chunk.offset, chunk.data[:size])

    def _read(self, seen: ContainerStatus, offset: int, limit: int) -> bytes:
        """Bytes of its log, without its secrets."""
        is_complete = seen.phase is ContainerPhase.EXITED
        read = partial(self.runtime.log, seen.replica)
        return self.secrets.read_log(seen.replica, read, offset, limit, is_complete=is_complete)

    async def _sent(self, chunks: list[NewLogBytes]) -> list[LogChunkResult]:
        """One result for each chunk."""
        if not self.sends_each_alone:
            try:
                results = await self.client.logs(chunks)
            except PortalOlder:
                log.info("portal_takes_each_log_alone")
                self.sends_each_alone = True
            else:
                by_replica = {result.replica: result for result in results}
                return [by_replica[chunk.replica] for chunk in chunks]
        return [await self._sent_alone(chunk) for chunk in chunks]

    async def _sent_alone(self, chunk: NewLogBytes) -> LogChunkResult:
        try:
            answer = await self.client.log(chunk.replica, chunk.offset, chunk.data)
        except ContractError as refused:
            expected = int((refused.extra or {}).get("expected_offset", 0))
            if refused.code is ContractErrorCode.OFFSET_MISMATCH or refused.code in SKIPPED:
                return LogChunkResult(chunk.replica, expected, refused.code, refused.sentence)
            raise
        return LogChunkResult(chunk.replica, answer.next_offset)


def _beginning_with(first: str, names: Mapping[str, ContainerStatus]) -> list[str]:
    """In order, and around from the last to the first."""
    ordered = sorted(names)
    start = bisect.bisect_left(ordered, first)
    return ordered[start:] + ordered[:start]


def _end(chunk: NewLogBytes, result: LogChunkResult) -> int:
    """Up to where the log is shipped now. Raises ContractError for an unknown refusal."""
    if not result.code or result.code == ContractErrorCode.OFFSET_MISMATCH:
        return result.next_offset
    if result.code in SKIPPED:
        return chunk.offset + len(chunk.data)
    raise ContractError(ContractErrorCode.UNAVAILABLE, f"{result.code}: {result.sentence}")
