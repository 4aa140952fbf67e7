"""On a large cluster, the snapshot of a web process is there before somebody asks for it.

    with SnapshotAhead():     read at the start of the process, and again before it is too old

To read and plan such a cluster takes seconds. Without this, whoever asks first waits for them, and
so does whoever asks after a minute in which nobody did (see `portal.planning.snapshot_cache`).
Half an hour after the last question, nothing is read any more.
"""

import logging
from contextlib import AbstractContextManager
from datetime import timedelta
from threading import Event, Thread

from django.db import Error, connections

from portal.inventory.models import Gpu
from portal.jobs.models import Job
from portal.jobs.querysets import values_of
from portal.planning import snapshot_cache
from scheduler.core.model.states import JOB_ALLOCATED, JOB_WAITING

log = logging.getLogger(__name__)
LOOK_SECONDS = 5
# Younger ones serve for as long as it takes to read a new one.
RENEW, KEPT = timedelta(seconds=40), timedelta(minutes=30)


class SnapshotAhead(AbstractContextManager["SnapshotAhead"]):
    """A thread that reads ahead, from entering to leaving."""

    def __init__(self) -> None:
        self._end = Event()
        self._is_begun = False

    def __enter__(self) -> "SnapshotAhead":
        Thread(target=self._run, name="snapshot-ahead", daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end.set()

    def renew_snapshot(self) -> None:
        """Read what is due. A database that does not answer is asked again the next time."""
        try:
            if self._is_begun:
                snapshot_cache.renew_for_next_question(older_than=RENEW, question_within=KEPT)
            else:
                _read_first()
                self._is_begun = True
        except Error as error:
            log.warning("the snapshot was not read ahead: %s", error)

    def _run(self) -> None:
        while True:
            self.renew_snapshot()
            connections.close_all()
            if self._end.wait(LOOK_SECONDS):
                return


def _read_first() -> None:
    active = values_of(JOB_WAITING | JOB_ALLOCATED)
    jobs = Job.objects.filter(status__in=active).order_by().count()
    if Gpu.objects.count() + jobs >= snapshot_cache.LARGE:
        snapshot_cache.current_snapshot()
