"""Log chunks from a node, appended by offset, so that a repeated chunk is harmless."""

from uuid import UUID

from django.db import transaction

from agents.contract.calls import LogResponse
from agents.contract.errors import ContractError, ContractErrorCode
from portal.inventory.credentials import node_authenticate
from portal.inventory.models import Node
from portal.job_logs.storage import write_log
from portal.jobs.models import Replica
from portal.live.bell import ring

MAX_LOG_BYTES = 128 << 20


def log_append(
    *, authorization: str, epoch: int, replica: str, offset: int, data: bytes
) -> LogResponse:
    """Append at the end. Raises ContractError with `expected_offset` for any other offset."""
    nodes = Node.objects.only("name", "status", "epoch", "token_digest", "token_expires_at")
    node = node_authenticate(nodes, authorization=authorization, epoch=epoch)
    with transaction.atomic():
        row = _own_replica(node, replica)
        end = offset + len(data)
        if offset <= row.log_bytes and end <= row.log_bytes:
            return LogResponse(next_offset=row.log_bytes)
        if offset != row.log_bytes:
            sentence = f"the log goes on at {row.log_bytes}"
            extra: dict[str, int | str] = {"expected_offset": row.log_bytes}
            raise ContractError(ContractErrorCode.OFFSET_MISMATCH, sentence, "offset", extra)
        if end > MAX_LOG_BYTES:
            sentence = f"a log is kept up to {MAX_LOG_BYTES} bytes: send no more of this one"
            raise ContractError(ContractErrorCode.TOO_LARGE, sentence)
        write_log(row, offset, data)
        Replica.objects.filter(pk=row.pk, log_bytes=offset).update(log_bytes=end)
        ring(f"job:{row.attempt.job_id}")
    return LogResponse(next_offset=end)


def _own_replica(node: Node, replica: str) -> Replica:
    refusal = ContractError(
        ContractErrorCode.REPLICA_UNKNOWN, "this node has no such replica: skip its log"
    )
    try:
        key = UUID(replica)
    except ValueError:
        raise refusal from None
    rows = Replica.objects.select_related("attempt__job").filter(pk=key, node=node)
    for row in rows.lock_rows():
        return row
    raise refusal
