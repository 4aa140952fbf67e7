"""The counts that the planning worker publishes after a pass, so that no page has to read a
large cluster to count what is free.

    scheduler/tasks.py ─▶ counts_publish() ─▶ one row of JSON ─▶ published_counts() ─▶ pages, REST

A pass that was cut short publishes nothing: jobs that had no turn yet may take what it left. While
passes follow one another at once, counts are published every PAUSE_SECONDS. Counts that are older
than MAX_AGE_SECONDS, or that this process cannot read, count as missing.
"""

import logging
import time
from collections.abc import Callable
from datetime import datetime, timedelta
from math import inf

from django.utils import timezone

from agents.contract.boards import Board, known_boards
from portal.availability.models import ROW_ID, PublishedCounts
from portal.database.kept_queries import KeptSelect
from portal.inventory.boards import cluster_boards
from portal.planning.snapshot_cache import freeze_garbage_collector
from scheduler.core.availability.cluster import ClusterAvailability
from scheduler.core.availability.document import availability_as_json, availability_from_json

log = logging.getLogger(__name__)
# GPUs, waiting and running jobs together, from which counts are published. A smaller cluster is
# read in 50 ms, and its pages show the present counts.
PUBLISHED_FROM = 500
# The sweep plans every few seconds; a pass that is cut short and continued takes up to 90 s.
MAX_AGE_SECONDS = 120
# To count 8,000 GPUs takes as long as the rest of a pass that places some jobs.
PAUSE_SECONDS = 1.0


def counts_publish(rows: int, count: Callable[[], ClusterAvailability]) -> None:
    """Publish the result of `count` after a finished pass over a snapshot of `rows` rows (see
    `row_count`). On a small cluster, withdraw earlier counts instead."""
    if rows >= PUBLISHED_FROM:
        document = availability_as_json(count())
        row = PublishedCounts(id=ROW_ID, published_at=timezone.now(), document=document)
        columns = ("published_at", "document")
        PublishedCounts.objects.bulk_create(
            [row], update_conflicts=True, unique_fields=["id"], update_fields=columns
        )
    elif _PUBLISHED.rows():
        PublishedCounts.objects.all().delete()
    global _published_at
    _published_at = time.monotonic()


def are_counts_recent() -> bool:
    """Whether this process has called `counts_publish` within PAUSE_SECONDS. If another pass
    follows at once, that one can count."""
    return time.monotonic() - _published_at < PAUSE_SECONDS


_published_at = -inf


_PUBLISHED = KeptSelect(lambda: PublishedCounts.objects.values_list("pk", flat=True)[:1])


def published_counts() -> ClusterAvailability | None:
    """The last published counts, if they still serve. One query; a second one if they are new to
    this process."""
    at = PublishedCounts.objects.values_list("published_at", flat=True).first()
    if at is None or abs(timezone.now() - at) >= timedelta(seconds=MAX_AGE_SECONDS):
        return None
    last = _last.get(ROW_ID)
    if last is None or last[0] != at:
        row = PublishedCounts.objects.first()
        if row is None:
            return None
        if not _last:
            # One page in ten of a large cluster would otherwise start a scan of all objects.
            freeze_garbage_collector()
        last = _last[ROW_ID] = (row.published_at, _read(row.document))
    return last[1]


# When it was published, and its counts; None if this process cannot read them.
_last: dict[int, tuple[datetime, ClusterAvailability | None]] = {}


def _read(document: str) -> ClusterAvailability | None:
    try:
        return availability_from_json(document, _find_board)
    except ValueError as error:
        log.warning("published counts cannot be read, so this process counts: %s", error)
        return None


def _find_board(key: str) -> Board | None:
    known = known_boards().get(key)
    return known or next((board for board in cluster_boards() if board.key == key), None)
