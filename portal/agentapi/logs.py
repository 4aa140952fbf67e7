"""Log chunks from a node, appended by offset, so that a repeated chunk is harmless.

The bytes go to the store between two short transactions: a store that answers late holds no row.
Uploads have threads of their own, so that it cannot hold up the calls that keep nodes alive.
"""

from dataclasses import dataclass
from uuid import UUID

from django.db import transaction

from agents.contract.calls import MAX_LOG_CHUNK_BYTES, LogResponse
from agents.contract.errors import ContractError, ContractErrorCode
from portal.agentapi.threads import run_in_store_thread, run_in_thread
from portal.inventory.credentials import credentials, node_authenticate
from portal.job_logs.storage import stream_name
from portal.jobs.models import Replica
from portal.live.bell import ring
from portal.storage.segments import UploadedPart, discard, merge_end, record, upload

MAX_LOG_BYTES = 128 << 20


@dataclass(frozen=True, slots=True)
class LogCall:
    """One chunk, as it was sent."""

    authorization: str
    epoch: int
    replica: str
    offset: int
    data: bytes


async def log_append(call: LogCall) -> LogResponse:
    """Append at the end. Raises ContractError with `expected_offset` for any other offset, and
    UNAVAILABLE if the store does not take the bytes: the agent keeps them and sends them again."""
    stream = await run_in_thread(_stream_to_append, call=call)
    if isinstance(stream, LogResponse):
        return stream
    parts = await run_in_store_thread(upload, stream=stream, data=call.data)
    try:
        response, was_recorded = await run_in_thread(_record, call=call, stream=stream, parts=parts)
    except ContractError:
        # After any other error the bytes may count: a connection can break during the commit.
        await run_in_store_thread(discard, parts=parts)
        raise
    # Both leave the log as it is if the store fails.
    if was_recorded:
        await run_in_store_thread(merge_end, stream=stream)
    else:
        await run_in_store_thread(discard, parts=parts)
    return response


def _stream_to_append(call: LogCall) -> str | LogResponse:
    """The stream that the chunk continues; a response if it has arrived already."""
    row = _own_replica(call, lock=False)
    return _repeated(row, call) or stream_name(row)


def _record(call: LogCall, stream: str, parts: list[UploadedPart]) -> tuple[LogResponse, bool]:
    """Count the bytes that were uploaded, unless the same call has arrived meanwhile."""
    with transaction.atomic():
        row = _own_replica(call, lock=True)
        if response := _repeated(row, call):
            return response, False
        record(stream, call.offset, parts)
        end = call.offset + len(call.data)
        Replica.objects.filter(pk=row.pk, log_bytes=call.offset).update(log_bytes=end)
        ring(f"job:{row.attempt.job_id}")
    return LogResponse(next_offset=end), True


def _repeated(row: Replica, call: LogCall) -> LogResponse | None:
    """The response to a chunk that has arrived already; None for one that continues the log."""
    end = call.offset + len(call.data)
    if end <= row.log_bytes:
        return LogResponse(next_offset=row.log_bytes)
    # What is refused for good comes before the offset: the agent skips it and goes on behind it.
    if row.log_removed_at is not None:
        sentence = "retention has removed this log: send no more of it"
        raise ContractError(ContractErrorCode.TOO_LARGE, sentence)
    if end > MAX_LOG_BYTES and row.log_bytes > MAX_LOG_BYTES - MAX_LOG_CHUNK_BYTES:
        sentence = f"a log is kept up to {MAX_LOG_BYTES} bytes: send no more of this one"
        raise ContractError(ContractErrorCode.TOO_LARGE, sentence)
    if call.offset != row.log_bytes:
        sentence = f"the log goes on at {row.log_bytes}"
        extra: dict[str, int | str] = {"expected_offset": row.log_bytes}
        raise ContractError(ContractErrorCode.OFFSET_MISMATCH, sentence, "offset", extra)
    return None


def _own_replica(call: LogCall, *, lock: bool) -> Replica:
    node = node_authenticate(credentials(), authorization=call.authorization, epoch=call.epoch)
    refusal = ContractError(
        ContractErrorCode.REPLICA_UNKNOWN, "this node has no such replica: skip its log"
    )
    try:
        key = UUID(call.replica)
    except ValueError:
        raise refusal from None
    rows = Replica.objects.select_related("attempt__job").filter(pk=key, node=node)
    for row in rows.lock_rows() if lock else rows:
        return row
    raise refusal
