"""The bytes of logs, stored as agents' chunks are."""

from portal.job_logs.storage import stream_name
from portal.jobs.models import Replica
from portal.storage.segments import StreamEnd, record, upload


def write_log(replica: Replica, offset: int, data: bytes) -> None:
    """Write `data` at `offset` and drop what follows. The caller counts the bytes."""
    name = stream_name(replica)
    record([StreamEnd(name, offset, upload(name, data))])
