"""A site that schedules by itself and hides its nodes, such as another cluster.

An adapter of Slurm or Kubernetes implements `RemoteCluster`. The cluster's own agent dials out; the
adapter keeps its last report and hands it the open orders.
"""

import logging
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol
from uuid import UUID

from django.db import IntegrityError, transaction
from django.db.models import Exists, OuterRef, QuerySet
from django.utils import timezone

from agents.contract.boards import known_boards
from agents.contract.egress import EgressPolicy
from agents.contract.message import Message
from portal.allocations.models import Allocation
from portal.allocations.services import attempt_allocations_mark_releasing, gang_reserve
from portal.arrays.room import CapRoom
from portal.audit.codes import EventCode
from portal.jobs.lifecycle import seconds_left
from portal.jobs.models import Attempt, DesiredState, Job, Replica
from portal.live.bell import ring_site
from portal.planning.requests import waiting_job_from_row
from portal.quotas.models import Quota
from portal.sites.observations import Observation
from scheduler.commit.placements import jobs_place
from scheduler.core.devices.options import DeviceOption, device_options
from scheduler.core.model.decisions import JobPlacement
from scheduler.core.model.snapshot import WaitingJob
from scheduler.core.model.states import ReplicaStatus
from scheduler.core.request import JobRequest, parse_stored_request
from scheduler.sites.base import SiteCapabilities, SiteReport, SiteUnreachableError

log = logging.getLogger(__name__)

# Once a replica was in one of these, a report without it means that the site has lost it.
LISTED = (ReplicaStatus.PREPARING, ReplicaStatus.READY, ReplicaStatus.RUNNING)


@dataclass(frozen=True, slots=True)
class AttemptOrder:
    """One attempt for a cluster."""

    fence: int
    """Identifies the attempt on both sides: an order that arrives twice is one piece of work."""
    job: str
    """The job's uid."""
    project: str
    user: str
    replicas: tuple[UUID, ...]
    """By rank."""
    request: JobRequest
    time_limit_seconds: int


class RemoteCluster(Protocol):
    """The calls of an adapter. All raise SiteUnreachableError."""

    def submit(self, order: AttemptOrder) -> None:
        """Carry it out. Called again while the attempt is open; the time limit may have grown."""
        ...

    def cancel(self, fence: int) -> None:
        """Stop it, with its grace period. An attempt that is unknown there never starts."""
        ...

    def forget(self, fence: int) -> bool:
        """Whether nothing of the ended attempt is left there."""
        ...

    def report(self) -> Iterable[Observation]:
        """Every replica that the cluster knows."""
        ...


class RemoteSite:
    """A cluster as a site. `offer`: its capabilities."""

    def __init__(self, name: str, cluster: RemoteCluster, offer: SiteCapabilities) -> None:
        self.name, self.cluster, self.offer = name, cluster, offer

    def capabilities(self) -> SiteCapabilities:
        return self.offer

    def begin(self, placement: JobPlacement, bypassed: tuple[str, ...] = ()) -> bool:
        """The placement has no replicas: the cluster chooses their nodes."""
        try:
            with transaction.atomic():
                return self._begin(placement, bypassed)
        except IntegrityError as error:
            log.warning("the database refused job %s at %s: %s", placement.job, self.name, error)
            return False

    def drive(self, attempts: Collection[int] | None = None) -> None:
        """An attempt whose order fails does not keep the others from theirs."""
        for attempt in self._attempts(attempts):
            try:
                self._drive(attempt)
            except SiteUnreachableError:
                raise
            except Exception:
                log.exception("site %s: the order for attempt %s failed", self.name, attempt.pk)

    def observe(self, now: datetime) -> SiteReport:
        # Read first, so that the report is newer: a replica that another round adds meanwhile
        # does not count as missing from it.
        listed = self._listed()
        seen = tuple(self.cluster.report())
        return SiteReport((*seen, *self._missing(listed, seen)), actor=f"site:{self.name}")

    def release(self) -> bool:
        ended = self._attempts(None).exclude(ended_at=None)
        forgotten = [attempt for attempt in ended if self.cluster.forget(attempt.pk)]
        marked = [attempt_allocations_mark_releasing(attempt=attempt) for attempt in forgotten]
        return any(marked)

    def _drive(self, attempt: Attempt) -> None:
        replicas = list(attempt.replicas.all())
        if attempt.ended_at is None and _is_to_run(replicas):
            self.cluster.submit(_order(attempt, replicas))
        else:
            self.cluster.cancel(attempt.pk)

    def _begin(self, placement: JobPlacement, bypassed: tuple[str, ...]) -> bool:
        queued = Job.objects.queued().filter(pk=placement.job)
        owner = queued.values_list("project_id", "owner_id").first()
        if owner is None:
            return False
        quotas = Quota.objects.applying_to(*owner).lock_rows()
        Job.objects.filter(pk__in=[placement.job, *bypassed]).lock_keys()
        job = next(iter(queued.select_related("project", "owner").lock_rows()), None)
        if job is None or job.hold_owner:
            return False
        waiting, now = waiting_job_from_row(job), timezone.now()
        option = self._option(waiting)
        if option is None or waiting.after or waiting.begin_at > now.timestamp():
            return False
        if CapRoom([job]).is_full(job):
            return False
        gang_reserve(
            job=job,
            site=self.name,
            board=option.board,
            units=option.replica_units,
            quotas=quotas,
            at=now,
        )
        Job.objects.filter(pk__in=bypassed).count_bypass()
        jobs_place([(job, placement)], now)
        ring_site(self.name)
        return True

    def _option(self, waiting: WaitingJob) -> DeviceOption | None:
        """The device that a replica gets here; None if the site does not offer it. What jobs reach
        from there is the cluster's own affair: those that may not reach everything stay away."""
        if waiting.replicas > self.offer.max_replicas or waiting.egress is not EgressPolicy.ALL:
            return None
        boards = [board for key, board in known_boards().items() if key in self.offer.boards]
        options = device_options(waiting.device, boards)
        return next((option for option in options if option.kind in self.offer.kinds), None)

    def _attempts(self, only: Collection[int] | None) -> QuerySet[Attempt]:
        """Those that are open, or still have devices."""
        live = Allocation.objects.live().filter(replica__attempt=OuterRef("pk"))
        rows = Attempt.objects.filter(Exists(live), site=self.name).order_by("pk")
        rows = rows if only is None else rows.filter(pk__in=only)
        rows = rows.select_related("job__project", "job__owner")
        return rows.prefetch_related("replicas")

    def _listed(self) -> dict[UUID, int]:
        """The replicas that a report has to name, with their fences."""
        rows = Replica.objects.filter(attempt__site=self.name, status__in=LISTED).order_by("pk")
        return dict(rows.values_list("pk", "attempt_id"))

    def _missing(
        self, listed: Mapping[UUID, int], seen: Iterable[Observation]
    ) -> Iterator[Observation]:
        named = {observation.replica for observation in seen}
        for pk in (pk for pk in listed if pk not in named):
            yield Observation(
                replica=pk,
                fence=listed[pk],
                status=ReplicaStatus.LOST,
                code=EventCode.SITE_LOST,
                message=Message("%(site)s no longer knows it", site=self.name),
            )


def _is_to_run(replicas: list[Replica]) -> bool:
    return any(row.desired_state in (DesiredState.PREPARE, DesiredState.RUN) for row in replicas)


def _order(attempt: Attempt, replicas: list[Replica]) -> AttemptOrder:
    job = attempt.job
    return AttemptOrder(
        fence=attempt.fence,
        job=str(job.uid),
        project=job.project.slug,
        user=job.owner.username,
        replicas=tuple(row.pk for row in replicas),
        request=parse_stored_request(job.request),
        time_limit_seconds=seconds_left(job),
    )
