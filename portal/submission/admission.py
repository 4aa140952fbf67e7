"""What is asked of a request before it becomes a job, beyond whether it can ever run."""

from collections.abc import Iterable

from agents.contract.boards import Board
from agents.contract.phrase import Phrase
from agents.contract.units import UNITS_PER_GPU
from portal.accounts.models import Membership, Project, User
from portal.errors import Refused
from portal.jobs.models import Job
from portal.quotas.approvals import approval_needed
from scheduler.core.devices.options import device_options
from scheduler.core.model.reasons import Reason
from scheduler.core.model.snapshot import Priority
from scheduler.core.model.states import JOB_FINAL, JobStatus
from scheduler.core.request import JobRequest

# A job that ended like this satisfies nobody who waits for it.
NEVER_SATISFIES = frozenset(JOB_FINAL - {JobStatus.SUCCEEDED})


def require_pending_room(user: User, project: Project, *, is_locking: bool = True) -> None:
    """Raises Refused(pending_limit) where the user, or the project, has as many waiting jobs as may
    be. The project's row is locked, so that two submits see each other; a question locks none."""
    own = Membership.objects.get(project=project, user=user).max_pending
    if not own and not project.max_pending:
        return
    if is_locking:
        Project.objects.select_for_update(no_key=True).get(pk=project.pk)
    waiting = Job.objects.waiting().filter(project=project)
    mine = waiting.filter(owner=user)
    if own and mine.count() >= own:
        raise _full(
            Phrase("You have %(n)s jobs waiting in %(project)s", n=own, project=project.slug)
        )
    if project.max_pending and waiting.count() >= project.max_pending:
        has = {"project": project.slug, "n": project.max_pending}
        raise _full(Phrase("%(project)s has %(n)s jobs waiting", **has))


def _full(waiting: Phrase) -> Refused:
    sentence = Phrase(
        "%(waiting)s, as many as may wait at once. Cancel one, or ask again when one has started",
        waiting=waiting,
    )
    return Refused("pending_limit", sentence, "project", 409)


def dependencies_of(request: JobRequest, project: Project) -> list[Job]:
    """The jobs that this one is to run after. Raises Refused(after_unknown, after_failed)."""
    ids = {int(label.removeprefix("J-")): label for label in request.after}
    found = {job.pk: job for job in Job.objects.filter(project=project, pk__in=ids)}
    for pk, label in ids.items():
        job = found.get(pk)
        if job is None:
            sentence = Phrase(
                "%(job)s is not a job of %(project)s. Name jobs of the same project",
                job=label,
                project=project.slug,
            )
            raise Refused("after_unknown", sentence, "after")
        if JobStatus(job.status) in NEVER_SATISFIES:
            sentence = Phrase(
                "%(job)s ended as %(status)s: what runs after it would never start",
                job=label,
                status=JobStatus(job.status),
            )
            raise Refused("after_failed", sentence, "after")
    return list(found.values())


def approval(request: JobRequest, project: Project, boards: Iterable[Board]) -> Reason | None:
    """Why an admin has to approve the job first, or None."""
    units = units_of(request, boards)
    priority = Priority(request.priority)
    return approval_needed(
        project, units=units, seconds=request.time_limit_seconds, priority=priority
    )


def units_of(request: JobRequest, boards: Iterable[Board]) -> int:
    """What all its replicas hold together."""
    return request.replicas * _units(request, boards)


def _units(request: JobRequest, boards: Iterable[Board]) -> int:
    """Of one replica, the cheapest way; where no node says how, as whole GPUs."""
    ways = device_options(request.device, boards)
    whole = UNITS_PER_GPU * max(1, request.device.gpus)
    return min((want.replica_units for want in ways), default=whole)
