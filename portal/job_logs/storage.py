"""Logs: one stream of bytes per replica, read by byte offset.

`Replica.log_bytes` says how many bytes count. A log that cannot be read raises a StoreError; a log
that retention removed raises LogRemoved.
"""

from collections.abc import Sequence

from django.utils import timezone

from agents.contract.message import Message
from portal.error_codes import ErrorCode
from portal.errors import Refused
from portal.job_logs.adoption import adopt_file
from portal.jobs.models import Replica
from portal.storage.streams import Stream, arrivals_of, open_streams

# The times of arrival of this much of the end are read at once.
TAIL_BYTES = 256 * 1024
STREAM_ATTRIBUTE = "_log_stream"


class LogRemoved(Refused):
    """The log is gone, as the retention settings say."""

    def __init__(self, replica: Replica) -> None:
        message = Message(
            "This log (%(mib)s MiB) was removed by retention, %(days)s d after the job ended",
            mib=f"{replica.log_bytes / (1 << 20):.1f}",
            days=_removed_after_days(replica),
        )
        super().__init__(ErrorCode.LOG_REMOVED, message)


def stream_name(replica: Replica) -> str:
    attempt = replica.attempt
    return f"logs/{attempt.job.uid}/{attempt.number}/{replica.rank}"


def open_logs(replicas: Sequence[Replica]) -> None:
    """Read where the logs of these replicas are, with two queries; reading their ends needs no
    more."""
    sizes = {stream_name(r): r.log_bytes for r in replicas if r.log_removed_at is None}
    streams = open_streams(sizes) if sizes else {}
    ends = []
    for replica in replicas:
        if stream := streams.get(stream_name(replica)):
            if stream.first_gap == 0 and adopt_file(stream):
                stream = open_streams({stream.name: stream.size})[stream.name]
            vars(replica)[STREAM_ATTRIBUTE] = stream
            ends += [(stream, segment.pk) for segment in stream.segments_from(-TAIL_BYTES)]
    packed = arrivals_of([pk for _, pk in ends]) if ends else {}
    for stream, pk in ends:
        stream.add_arrivals({pk: packed.get(pk, b"")})


def log_stream(replica: Replica) -> Stream:
    """The log. It is kept with the replica until more bytes are counted. Raises LogRemoved."""
    if replica.log_removed_at is not None:
        raise LogRemoved(replica)
    kept = vars(replica).get(STREAM_ATTRIBUTE)
    if not isinstance(kept, Stream) or kept.size != replica.log_bytes:
        open_logs([replica])
        kept = vars(replica)[STREAM_ATTRIBUTE]
    return kept


def read_log(replica: Replica, offset: int, limit: int) -> bytes:
    """At most `limit` bytes from `offset`; empty at the end, or if nothing has arrived."""
    if offset < 0 or offset >= replica.log_bytes:
        return b""
    return log_stream(replica).read(offset, limit)


def _removed_after_days(replica: Replica) -> int:
    """How many days after the end of the job the log was removed."""
    removed = replica.log_removed_at or timezone.now()
    ended = replica.attempt.job.finished_at or removed
    return max(0, (removed - ended).days)
