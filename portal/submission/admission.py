"""The checks of a request before it becomes a job. Submit and dry run make the same ones."""

from collections.abc import Iterable
from dataclasses import dataclass

from django.utils import timezone

from agents.contract.boards import Board
from agents.contract.message import Message
from agents.contract.units import UNITS_PER_GPU
from portal.accounts.models import Membership, Project, Role, User
from portal.catalogue.selectors import require_image_allowed
from portal.error_codes import ErrorCode
from portal.errors import Refused
from portal.jobs.models import Job
from portal.planning.inventory_view import current_inventory
from portal.planning.requests import waiting_job_from_request
from portal.planning.snapshot import quota_views
from portal.quotas.approvals import approval_needed
from scheduler.core.devices.options import device_options
from scheduler.core.model.reasons import Reason
from scheduler.core.model.snapshot import Priority
from scheduler.core.model.states import JOB_FINAL, JobStatus
from scheduler.core.placement.feasibility import ClusterCapacity
from scheduler.core.request import JobRequest

# A job that ended like this never satisfies one that is to run after it.
UNSATISFYING = frozenset(JOB_FINAL - {JobStatus.SUCCEEDED})


@dataclass(frozen=True, slots=True)
class RequestCheck:
    """What a submit would find out about a request that it does not refuse outright."""

    project: Project
    units: int
    """What all replicas together would have, served the cheapest way."""
    board: str
    """The key of the board that serves it so; "" if none does."""
    infeasible: Reason | None
    """Why no node of this cluster could ever run it."""
    approval: Reason | None
    """Why an admin has to approve the job first."""


def request_check(
    *, user: User, request: JobRequest, capacity: ClusterCapacity | None = None
) -> RequestCheck:
    """Check project, image, feasibility and approval. `capacity`: of the cluster, if the caller has
    read it already.

    Raises Refused(project_unknown), and what `require_image_allowed` raises.
    """
    project = _project(user, request.project)
    require_image_allowed(project, request.image)
    now = timezone.now()
    waiting = waiting_job_from_request(
        request,
        id="check",
        project=project.slug,
        user=user.username,
        queued_at=int(now.timestamp()),
    )
    capacity = capacity or current_inventory().capacity.with_quotas(quota_views())
    units, board = cheapest(request, capacity.boards)
    approval = approval_needed(
        project,
        units=units,
        seconds=request.time_limit_seconds,
        priority=Priority(request.priority),
    )
    return RequestCheck(project, units, board, capacity.infeasible_reason(waiting), approval)


def _project(user: User, slug: str) -> Project:
    """A project in which the user may start work. Unknown and foreign ones read the same."""
    roles = [Role.MEMBER, Role.ADMIN]
    own = Membership.objects.filter(user=user, role__in=roles, project__archived=False)
    membership = own.filter(project__slug=slug).select_related("project").first()
    if membership is None:
        names = ", ".join(own.values_list("project__slug", flat=True)) or "none"
        sentence = Message(
            "%(slug)s is not a project you can start work in. Yours: %(names)s",
            slug=repr(slug),
            names=names,
        )
        raise Refused(ErrorCode.PROJECT_UNKNOWN, sentence, "project")
    return membership.project


def require_pending_room(user: User, project: Project, *, is_locking: bool = True) -> None:
    """Raises Refused(pending_limit) if the user or the project has as many waiting jobs as allowed.

    A submit locks the project's row, so that two submits count each other; a dry run does not.
    """
    own = Membership.objects.get(project=project, user=user).max_pending
    if not own and not project.max_pending:
        return
    if is_locking:
        Project.objects.select_for_update(no_key=True).get(pk=project.pk)
    waiting = Job.objects.waiting().filter(project=project)
    mine = waiting.filter(owner=user)
    if own and mine.count() >= own:
        raise _full(
            Message("You have %(n)s jobs waiting in %(project)s", n=own, project=project.slug)
        )
    if project.max_pending and waiting.count() >= project.max_pending:
        has = {"project": project.slug, "n": project.max_pending}
        raise _full(Message("%(project)s has %(n)s jobs waiting", **has))


def _full(waiting: Message) -> Refused:
    sentence = Message(
        "%(waiting)s, which is the limit. Cancel one, or submit again when one has started",
        waiting=waiting,
    )
    return Refused(ErrorCode.PENDING_LIMIT, sentence, "project")


def dependencies_of(request: JobRequest, project: Project) -> list[Job]:
    """The jobs that must succeed first. Raises Refused(after_unknown, after_failed)."""
    ids = {int(label.removeprefix("J-")): label for label in request.after}
    found = {job.pk: job for job in Job.objects.filter(project=project, pk__in=ids)}
    for pk, label in ids.items():
        job = found.get(pk)
        if job is None:
            sentence = Message(
                "%(job)s is not a job of %(project)s. Name jobs of the same project",
                job=label,
                project=project.slug,
            )
            raise Refused(ErrorCode.AFTER_UNKNOWN, sentence, "after")
        if JobStatus(job.status) in UNSATISFYING:
            sentence = Message(
                "%(job)s ended as %(status)s: a job that must run after it would never start",
                job=label,
                status=Message(job.status),
            )
            raise Refused(ErrorCode.AFTER_FAILED, sentence, "after")
    return list(found.values())


def cheapest(request: JobRequest, boards: Iterable[Board]) -> tuple[int, str]:
    """Units of all replicas together, and the key of the board that serves them with the fewest;
    whole GPUs and "" if no board can serve the request."""
    options = device_options(request.device, boards)
    option = min(options, key=lambda option: option.replica_units, default=None)
    if option is None:
        return request.replicas * UNITS_PER_GPU * max(1, request.device.gpus), ""
    return request.replicas * option.replica_units, option.board
