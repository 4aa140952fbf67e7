"""How far a job's start is, as lines of its timeline: slices carved, image pulled."""

from collections.abc import Sequence
from dataclasses import dataclass

from django.utils.translation import gettext as _

from portal.jobs.images import with_other_image
from portal.jobs.models import Job, Replica
from portal.jobs.pulls import ReplicaPull, replica_pull, size_text
from portal.web.wording.labels import NBSP
from scheduler.core.model.states import JobStatus, ReplicaStatus, SliceStatus

STARTING = (JobStatus.PLACED, JobStatus.PREPARING)
READY_REPLICAS = (ReplicaStatus.READY, ReplicaStatus.RUNNING)


@dataclass(frozen=True, slots=True)
class StartProgress:
    """One thing that a start waits for."""

    sentence: str
    percent: int | None
    """None while nobody knows how much there is."""


def start_progress(job: Job, replicas: Sequence[Replica]) -> list[StartProgress]:
    """Empty unless the job is starting. `replicas`: with their allocations and slices."""
    if JobStatus(job.status) not in STARTING or not replicas:
        return []
    lines = [_carving(replicas), _pulling(job, replicas), _same_image(replicas), _ready(replicas)]
    return [line for line in lines if line]


def _carving(replicas: Sequence[Replica]) -> StartProgress | None:
    """Slices of a GPU only: a whole GPU needs no carving."""
    slices = [
        held.slice
        for replica in replicas
        for held in replica.allocations.all()
        if held.slice and held.slice.profile
    ]
    carved = sum(row.status == SliceStatus.READY for row in slices)
    if carved == len(slices):
        return None
    words = {"n": carved, "all": len(slices)}
    return StartProgress(_("%(n)s of %(all)s slices carved") % words, 100 * carved // len(slices))


def _pulling(job: Job, replicas: Sequence[Replica]) -> StartProgress | None:
    """Over all nodes that pull: replicas on a node wait for the same pull."""
    pulls: dict[str, ReplicaPull] = {}
    for replica in replicas:
        if pull := replica_pull(replica, job.image):
            pulls[replica.location] = pull
    if not pulls:
        return None
    done = sum(pull.bytes_done for pull in pulls.values())
    totals = [pull.bytes_total for pull in pulls.values()]
    total = sum(size or 0 for size in totals)
    if not total or None in totals:
        return StartProgress(_("Image: %(done)s so far") % {"done": _size(done)}, None)
    words = {"done": _size(done), "total": _size(total)}
    percent = min(100, 100 * done // total)
    return StartProgress(_("Image: %(done)s of %(total)s") % words, percent)


def _same_image(replicas: Sequence[Replica]) -> StartProgress | None:
    """Of a gang whose tag was moved between two pulls."""
    others = len(with_other_image(replicas))
    if not others:
        return None
    words = {"n": len(replicas) - others, "all": len(replicas)}
    return StartProgress(_("%(n)s of %(all)s replicas have the image of replica 0") % words, None)


def _ready(replicas: Sequence[Replica]) -> StartProgress | None:
    """Of a gang, which starts together."""
    ready = sum(ReplicaStatus(replica.status) in READY_REPLICAS for replica in replicas)
    if len(replicas) == 1 or not ready:
        return None
    words = {"n": ready, "all": len(replicas)}
    return StartProgress(_("%(n)s of %(all)s replicas ready") % words, 100 * ready // len(replicas))


def _size(size: int) -> str:
    return size_text(size).replace(" ", NBSP)
