"""Log chunks from a node, appended by offset, so that a repeated chunk is harmless.

The chunks of a call are judged each by itself, and counted in one transaction. The bytes go to the
store between two short transactions: a store that answers late holds no row. All of it runs in
threads of its own, so that it cannot hold up the calls that keep nodes alive.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.db import transaction

from agents.contract.calls import MAX_LOG_CHUNK_BYTES, LogResponse
from agents.contract.errors import ContractError, ContractErrorCode
from agents.contract.log_batch import LogBatchResponse, LogChunkResult, NewLogBytes
from portal.agentapi.threads import run_in_log_thread, run_in_store_thread
from portal.database.kept_queries import KeptSelect, ListOf
from portal.database.locks import LockingQuerySet
from portal.database.row_writes import rows_update
from portal.inventory.credentials import (
    CREDENTIAL_COLUMNS,
    CREDENTIALS,
    claimed_node_id,
    node_authenticate,
    require_bearer,
)
from portal.inventory.models import Node
from portal.job_logs.storage import stream_name
from portal.jobs.models import Replica
from portal.live.bell import ring
from portal.storage.segments import StreamEnd, discard, merge_end, record, upload

MAX_LOG_BYTES = 128 << 20
COLUMNS = (
    *("node", "attempt", "rank", "log_bytes", "log_removed_at"),
    *("attempt__job", "attempt__number", "attempt__job__uid"),
    *(f"node__{name}" for name in CREDENTIAL_COLUMNS),
)


@dataclass(frozen=True, slots=True)
class LogCall:
    """Chunks as they were sent, each replica once."""

    authorization: str
    epoch: int
    chunks: tuple[NewLogBytes, ...]


# By replica: where its log goes on, or why the chunk is refused.
Outcomes = dict[str, int | ContractError]


async def log_append(call: LogCall) -> LogResponse:
    """Append the one chunk at the end. Raises ContractError with `expected_offset` for any other
    offset, and UNAVAILABLE if the store does not take the bytes: the agent keeps them and sends
    them again."""
    ((_, outcome),) = (await _append(call)).items()
    if isinstance(outcome, ContractError):
        raise outcome
    return LogResponse(next_offset=outcome)


async def logs_append(call: LogCall) -> LogBatchResponse:
    """The same for many logs. Raises ContractError only for the call as a whole."""
    outcomes = await _append(call)
    return LogBatchResponse(tuple(_result(c.replica, outcomes[c.replica]) for c in call.chunks))


def _result(replica: str, outcome: int | ContractError) -> LogChunkResult:
    if isinstance(outcome, int):
        return LogChunkResult(replica, outcome)
    expected = int((outcome.extra or {}).get("expected_offset", 0))
    return LogChunkResult(replica, expected, str(outcome.code), outcome.sentence)


async def _append(call: LogCall) -> Outcomes:
    outcomes, streams = await run_in_log_thread(_judge_all, call=call)
    if not streams:
        return outcomes
    uploaded = await run_in_store_thread(_upload_all, call=call, streams=streams)
    try:
        again, recorded = await run_in_log_thread(_record_all, call=call, uploaded=uploaded)
    except ContractError:
        # After any other error the bytes may count: a connection can break during the commit.
        await run_in_store_thread(_discard_all, ends=uploaded.values())
        raise
    # A log's first chunk has nothing to be merged with.
    grown = [end.stream for end in recorded.values() if end.offset]
    unused = [end for replica, end in uploaded.items() if replica not in recorded]
    if grown or unused:
        await run_in_store_thread(_finish, grown=grown, unused=unused)
    return outcomes | again


def _judge_all(call: LogCall) -> tuple[Outcomes, dict[str, str]]:
    """What is known without the bytes, and the streams that the other chunks continue."""
    rows = _own_replicas(call, lock=False)
    outcomes, streams = Outcomes(), {}
    for chunk in call.chunks:
        outcome = _judge(rows.get(chunk.replica), chunk)
        if outcome is None:
            streams[chunk.replica] = stream_name(rows[chunk.replica])
        else:
            outcomes[chunk.replica] = outcome
    return outcomes, streams


def _upload_all(call: LogCall, streams: Mapping[str, str]) -> dict[str, StreamEnd]:
    """By replica. Raises StoreError, and then keeps none."""
    ends: dict[str, StreamEnd] = {}
    try:
        for chunk in call.chunks:
            if stream := streams.get(chunk.replica):
                parts = upload(stream, chunk.data)
                ends[chunk.replica] = StreamEnd(stream, chunk.offset, parts)
    except BaseException:
        _discard_all(ends.values())
        raise
    return ends


def _record_all(
    call: LogCall, uploaded: Mapping[str, StreamEnd]
) -> tuple[Outcomes, dict[str, StreamEnd]]:
    """Count the bytes that were uploaded, except of chunks that have arrived meanwhile."""
    outcomes, ends, grown = Outcomes(), {}, []
    with transaction.atomic():
        rows = _own_replicas(call, lock=True)
        for chunk in call.chunks:
            if chunk.replica not in uploaded:
                continue
            outcome = _judge(rows.get(chunk.replica), chunk)
            if outcome is None:
                row = rows[chunk.replica]
                row.log_bytes = outcome = chunk.offset + len(chunk.data)
                ends[chunk.replica] = uploaded[chunk.replica]
                grown.append(row)
            outcomes[chunk.replica] = outcome
        if ends:
            record(list(ends.values()))
            rows_update(Replica, grown, ["log_bytes"])
        for job in {row.attempt.job_id for row in grown}:
            ring(f"job:{job}")
    return outcomes, ends


def _finish(grown: Sequence[str], unused: Sequence[StreamEnd]) -> None:
    """Both leave the logs as they are if the store fails."""
    for stream in grown:
        merge_end(stream)
    _discard_all(unused)


def _discard_all(ends: Iterable[StreamEnd]) -> None:
    discard([part for end in ends for part in end.parts])


def _judge(row: Replica | None, chunk: NewLogBytes) -> int | ContractError | None:
    """None for a chunk that continues the log; where the log goes on after one that has arrived
    already; the refusal of any other."""
    if row is None:
        sentence = "this node has no such replica: skip its log"
        return ContractError(ContractErrorCode.REPLICA_UNKNOWN, sentence)
    end = chunk.offset + len(chunk.data)
    if end <= row.log_bytes:
        return row.log_bytes
    # What is refused for good comes before the offset: the agent skips it and goes on behind it.
    if row.log_removed_at is not None:
        sentence = "retention has removed this log: send no more of it"
        return ContractError(ContractErrorCode.TOO_LARGE, sentence)
    if end > MAX_LOG_BYTES and row.log_bytes > MAX_LOG_BYTES - MAX_LOG_CHUNK_BYTES:
        sentence = f"a log is kept up to {MAX_LOG_BYTES} bytes: send no more of this one"
        return ContractError(ContractErrorCode.TOO_LARGE, sentence)
    if chunk.offset != row.log_bytes:
        sentence = f"the log goes on at {row.log_bytes}"
        extra: dict[str, int | str] = {"expected_offset": row.log_bytes}
        return ContractError(ContractErrorCode.OFFSET_MISMATCH, sentence, "offset", extra)
    return None


def _own_replicas(call: LogCall, *, lock: bool) -> dict[str, Replica]:
    """The node's replicas that the call names, by the name that it uses. The node that they are
    of comes with them, as nearly every call names one. Raises ContractError."""
    keys = {key: chunk.replica for chunk in call.chunks if (key := _uuid(chunk.replica))}
    kept = _LOCKED if lock else _OWN
    rows = kept.rows(claimed_node_id(call.authorization), list(keys)) if keys else []
    if rows and (node := rows[0].node):
        require_bearer(node, authorization=call.authorization, epoch=call.epoch)
    else:
        node_authenticate(CREDENTIALS, authorization=call.authorization, epoch=call.epoch)
    return {keys[row.pk]: row for row in rows}


def _own(node: Any, replicas: Any) -> LockingQuerySet[Replica]:
    rows = Replica.objects.filter(node=node, pk__in=replicas).order_by()
    return rows.select_related("attempt__job", "node").only(*COLUMNS)


_REPLICAS = (Node._meta.pk, ListOf(Replica._meta.pk))
_OWN = KeptSelect(_own, *_REPLICAS)
_LOCKED = KeptSelect(lambda node, replicas: _own(node, replicas).locking(), *_REPLICAS)


def _uuid(text: str) -> UUID | None:
    try:
        return UUID(text)
    except ValueError:
        return None
