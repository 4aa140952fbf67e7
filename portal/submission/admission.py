"""The checks of a request before it becomes a job. Submit and dry run make the same ones."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from django.db.models import CharField, QuerySet
from django.utils import timezone

from agents.contract.boards import Board
from agents.contract.message import Message
from agents.contract.units import UNITS_PER_GPU
from portal.accounts.models import Membership, Project, Role, User
from portal.catalogue.selectors import require_image_allowed
from portal.database.kept_queries import KeptSelect
from portal.error_codes import ErrorCode
from portal.errors import Refused
from portal.files.selectors import require_code
from portal.inventory.version import version_column
from portal.job_secrets.selectors import require_secret_names
from portal.jobs.models import Job
from portal.notices.selectors import require_webhook_names
from portal.planning.inventory_view import current_inventory
from portal.planning.requests import waiting_job_from_request
from portal.planning.snapshot import quota_views
from portal.quotas.approvals import approval_needed
from portal.volumes.selectors import require_volumes
from scheduler.core.devices.options import device_options
from scheduler.core.model.reasons import Reason
from scheduler.core.model.snapshot import Priority
from scheduler.core.model.states import JOB_UNSUCCESSFUL, JobStatus
from scheduler.core.placement.feasibility import ClusterCapacity
from scheduler.core.request import JobRequest
from scheduler.core.request.arrays import members_at_once
from scheduler.core.request.conditions import parse_dependency
from scheduler.core.request.secrets import secret_names


@dataclass(frozen=True, slots=True)
class RequestCheck:
    """What a submit would find out about a request that it does not refuse outright."""

    membership: Membership
    """Of the user, in the request's project."""
    units: int
    """What all replicas together would have, served the cheapest way."""
    board: str
    """The key of the board that serves it so; "" if none does."""
    infeasible: Reason | None
    """Why no node of this cluster could ever run it."""
    approval: Reason | None
    """Why an admin has to approve the job first."""

    @property
    def project(self) -> Project:
        return self.membership.project


def _working_memberships(user: Any) -> QuerySet[Membership]:
    """`user`: their key."""
    roles = (Role.MEMBER, Role.ADMIN)
    return Membership.objects.filter(user=user, role__in=roles, project__archived=False)


_MEMBERSHIPS = KeptSelect(
    lambda user, slug: (
        _working_memberships(user)
        .filter(project__slug=slug)
        .select_related("project__image_policy")
        .annotate(inventory=version_column())
    ),
    User._meta.pk,
    CharField(),
)


class Admission:
    """The checks of one user's requests. Memberships, quotas and the inventory are read once for
    all of them, when first needed."""

    def __init__(self, user: User, capacity: ClusterCapacity | None = None) -> None:
        """`capacity`: of the cluster, if the caller has it already."""
        self.user = user
        self._capacity = capacity
        self._memberships: dict[str, Membership | None] = {}
        # As it was when the last membership was read.
        self._inventory: int | None = None

    @property
    def capacity(self) -> ClusterCapacity:
        if self._capacity is None:
            inventory = current_inventory(self._inventory)
            self._capacity = inventory.capacity.with_quotas(quota_views())
        return self._capacity

    def check(self, request: JobRequest) -> RequestCheck:
        """Check project, image, code, volumes, feasibility and approval.

        Raises Refused(project_unknown), and what `require_image_allowed`, `require_webhook_names`,
        `require_code`, `require_volumes` and `require_secret_names` raise.
        """
        membership = self._membership(request.project)
        project = membership.project
        require_image_allowed(project, request.image)
        require_webhook_names(self.user, project, request.notify)
        if request.code_tree:
            require_code(project, request.code_tree)
        require_secret_names(self.user, project, secret_names(request.secrets))
        if request.volumes:
            require_volumes(project, request.volumes)
        waiting = waiting_job_from_request(
            request,
            id="check",
            project=project.slug,
            user=self.user.username,
            queued_at=int(timezone.now().timestamp()),
            egress=project.egress,
        )
        units, board = cheapest(request, self.capacity.boards)
        # An array is approved as a whole: what may run at once, for as long as that takes.
        size, at_once = members_at_once(request)
        approval = approval_needed(
            project,
            units=units * at_once,
            seconds=request.time_limit_seconds * -(-size // at_once),
            priority=Priority(request.priority),
        )
        infeasible = self.capacity.infeasible_reason(waiting)
        return RequestCheck(membership, units, board, infeasible, approval)

    def require_feasible(self, request: JobRequest) -> RequestCheck:
        """`check`. Raises what it raises, and the reason why the request can never run."""
        check = self.check(request)
        if reason := check.infeasible:
            raise Refused(ErrorCode(reason.code), reason.message, "device")
        return check

    def _membership(self, slug: str) -> Membership:
        """In a project in which the user may start work. Unknown and foreign ones read the same."""
        if slug not in self._memberships:
            # With the project's image policy, which every check reads; there is one at most.
            # With the inventory's version, too, which would be a statement of its own.
            row = next(iter(_MEMBERSHIPS.rows(self.user.pk, slug)), None)
            self._memberships[slug] = row
            self._inventory = getattr(row, "inventory", None)
        membership = self._memberships[slug]
        if membership is None:
            own = _working_memberships(self.user.pk)
            names = ", ".join(own.values_list("project__slug", flat=True)) or "none"
            sentence = Message(
                "%(slug)s is not a project you can start work in. Yours: %(names)s",
                slug=repr(slug),
                names=names,
            )
            raise Refused(ErrorCode.PROJECT_UNKNOWN, sentence, "project")
        return membership


@dataclass(slots=True)
class PendingRoom:
    """How many more jobs may wait: of the user in the project, and of the project."""

    membership: Membership
    mine: int
    """Of the user, waiting now."""
    all: int

    def take(self) -> None:
        """Count one more waiting job. Raises Refused(pending_limit) if there are as many as
        allowed."""
        own, project = self.membership.max_pending, self.membership.project
        if own and self.mine >= own:
            raise _full(
                Message("You have %(n)s jobs waiting in %(project)s", n=own, project=project.slug)
            )
        if project.max_pending and self.all >= project.max_pending:
            has = {"project": project.slug, "n": project.max_pending}
            raise _full(Message("%(project)s has %(n)s jobs waiting", **has))
        self.mine, self.all = self.mine + 1, self.all + 1


def pending_room(membership: Membership, *, is_locking: bool = True) -> PendingRoom:
    """A submit locks the project's row, so that two submits count each other; a dry run does not.
    Nothing is read where there is no limit."""
    project = membership.project
    if not membership.max_pending and not project.max_pending:
        return PendingRoom(membership, 0, 0)
    if is_locking:
        Project.objects.select_for_update(no_key=True).get(pk=project.pk)
    waiting = Job.objects.waiting().filter(project=project)
    mine = waiting.filter(owner_id=membership.user_id).count() if membership.max_pending else 0
    return PendingRoom(membership, mine, waiting.count() if project.max_pending else 0)


def _full(waiting: Message) -> Refused:
    sentence = Message(
        "%(waiting)s, which is the limit. Cancel one, or submit again when one has started",
        waiting=waiting,
    )
    return Refused(ErrorCode.PENDING_LIMIT, sentence, "project")


def dependencies_of(request: JobRequest, project: Project) -> dict[int, bool]:
    """By the key of each job that must end first: whether it has to succeed. An array is all its
    members.

    Raises Refused(after_unknown, after_failed).
    """
    named = [parse_dependency(word) for word in request.after]
    single = [each.number for each in named if not each.is_array]
    jobs = Job.objects.filter(project=project).only("pk", "status")
    by_key = jobs.in_bulk(single) if single else {}
    needs: dict[int, bool] = {}
    for each in named:
        if each.is_array:
            members = jobs.filter(array=each.number, array_index__isnull=False)
            first = list(members.order_by("pk"))
        else:
            first = [by_key[each.number]] if each.number in by_key else []
        if not first:
            sentence = Message(
                "%(job)s is not a job of %(project)s. Name jobs of the same project",
                job=each.label,
                project=project.slug,
            )
            raise Refused(ErrorCode.AFTER_UNKNOWN, sentence, "after")
        for job in first:
            if each.requires_success and JobStatus(job.status) in JOB_UNSUCCESSFUL:
                raise _never_starts(job)
            needs[job.pk] = needs.get(job.pk, False) or each.requires_success
    return needs


def _never_starts(job: Job) -> Refused:
    sentence = Message(
        "%(job)s ended as %(status)s: a job that must run after it would never start",
        job=job.label,
        status=Message(job.status),
    )
    return Refused(ErrorCode.AFTER_FAILED, sentence, "after")


def cheapest(request: JobRequest, boards: Iterable[Board]) -> tuple[int, str]:
    """Units of all replicas together, as many as it may have at once, and the key of the board that
    serves them with the fewest; whole GPUs and "" if no board can serve the request."""
    options = device_options(request.device, boards)
    option = min(options, key=lambda option: option.replica_units, default=None)
    if option is None:
        return request.most_replicas * UNITS_PER_GPU * max(1, request.device.gpus), ""
    return request.most_replicas * option.replica_units, option.board
