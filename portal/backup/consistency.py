"""Database and store against each other: objects that are missing or short, logs that they cut."""

from collections.abc import Iterator
from dataclasses import dataclass

from portal.job_logs.storage import stream_name
from portal.jobs.models import Replica
from portal.storage.errors import ObjectMissing
from portal.storage.models import Segment
from portal.storage.stores import store_by_key


@dataclass(frozen=True, slots=True)
class BrokenStream:
    """A stream of which the store does not have all bytes."""

    stream: str
    object_name: str
    problem: str
    first_lost: int
    """Offset of the first byte that is not there."""


def broken_streams() -> list[BrokenStream]:
    """Each stream once, by the first of its segments that the store does not have whole. Raises
    StoreUnavailable: a store that does not answer has lost nothing."""
    found: dict[str, BrokenStream] = {}
    rows = Segment.objects.select_related("store").order_by("stream", "start")
    for row in rows.iterator():
        if row.stream in found:
            continue
        problem = _problem(row)
        if problem:
            found[row.stream] = BrokenStream(row.stream, row.object_name, problem, row.start)
    return list(found.values())


def streams_cut(broken: list[BrokenStream]) -> int:
    """Cut each log to the bytes before its first lost one. Returns how many logs became shorter."""
    starts = {one.stream: one.first_lost for one in broken}
    for stream, start in starts.items():
        Segment.objects.filter(stream=stream, start__gte=start).delete()
    cut = 0
    for replica in _replicas(starts):
        start = starts[stream_name(replica)]
        if replica.log_bytes > start:
            Replica.objects.filter(pk=replica.pk).update(log_bytes=start)
            cut += 1
    return cut


def _problem(row: Segment) -> str:
    needed = row.object_offset + row.size
    try:
        size = store_by_key(row.store.key).size(row.object_name)
    except ObjectMissing:
        return "missing"
    return f"{size} bytes instead of {needed}" if size < needed else ""


def _replicas(streams: dict[str, int]) -> Iterator[Replica]:
    uids = {name.split("/")[1] for name in streams if name.startswith("logs/")}
    rows = Replica.objects.filter(attempt__job__uid__in=uids).select_related("attempt__job")
    return (row for row in rows if stream_name(row) in streams)
