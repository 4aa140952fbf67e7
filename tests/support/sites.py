"""Sites under test: Tessera's own nodes with honest agents, and a cluster in memory.

Both are driven through the same few verbs of `SiteUnderTest`, so that one suite holds them to the
same contract.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any, Protocol
from uuid import UUID, uuid4

from django.utils import timezone

from agents.contract.documents import ObservedReplica, ReplicaState, SliceKind
from portal.accounts.models import Project, User
from portal.allocations.services import allocations_release
from portal.audit.models import Event
from portal.desired.services import node_drive
from portal.inventory.models import Node
from portal.jobs.models import Job, Replica
from portal.planning.planner_input import planner_input
from portal.quotas.models import Quota
from portal.quotas.policy import current_policy
from portal.sites.observations import Observation, ObservationResult, observations_apply
from scheduler.core.forecast.runtime_model import RuntimeModel
from scheduler.core.model.decisions import JobPlacement
from scheduler.core.model.states import NodeStatus, ReplicaStatus
from scheduler.core.plan import plan as decide
from scheduler.sites.base import Site, SiteCapabilities, SiteUnreachableError
from scheduler.sites.own_nodes import OwnNodes
from scheduler.sites.reconcile import sites_drive, sites_observe
from scheduler.sites.registry import register
from scheduler.sites.remote import AttemptOrder, RemoteSite
from scheduler.sweeper import sweep
from tests.support.rows import a_job, a_node

BOARD = "H200-141GB"


class SiteUnderTest(Protocol):
    """A site, and the world behind it."""

    site: Site

    def choose(self, job: Job) -> None:
        """Decide where the job is to go, on the rows of now."""

    def begin(self, job: Job) -> bool:
        """The site takes the job, where it was to go; by its own `begin`."""

    def prepare(self) -> None:
        """Everything that was submitted is being prepared, and the site has reported it."""

    def settle(self) -> None:
        """What is wanted is carried out and reported, until nothing changes any more."""

    def finish(self, exit_code: int = 0) -> None:
        """Every running replica ends by itself; reported."""

    def lose(self) -> None:
        """What the site carries out is gone for good."""

    def cut(self) -> None:
        """The site does not answer any more."""

    def mend(self) -> None:
        """It answers again."""

    def deliver(self, observations: Iterable[Observation]) -> ObservationResult:
        """These observations arrive from the site, whether they are true or not."""

    def left(self) -> set[UUID]:
        """The replicas of which something is left there."""


@dataclass
class ClusterInMemory:
    """A cluster with a queue of its own, as an adapter would show it."""

    orders: dict[int, AttemptOrder] = field(default_factory=dict)
    seen: dict[UUID, Observation] = field(default_factory=dict)
    submissions: list[int] = field(default_factory=list)
    is_cut: bool = False

    def submit(self, order: AttemptOrder) -> None:
        self._answer()
        self.submissions.append(order.fence)
        if order.fence in self.orders:
            return
        self.orders[order.fence] = order
        for replica in order.replicas:
            self.seen[replica] = Observation(replica, order.fence, ReplicaStatus.PENDING)

    def cancel(self, fence: int) -> None:
        self._answer()
        for observation in self._of(fence):
            if observation.status is ReplicaStatus.RUNNING:
                self._move(observation, ReplicaStatus.EXITED, exit_code=143, was_stopped=True)
            elif observation.status in (ReplicaStatus.PENDING, ReplicaStatus.PREPARING):
                self._move(observation, ReplicaStatus.FAILED, code="cancelled")

    def forget(self, fence: int) -> bool:
        self._answer()
        for observation in self._of(fence):
            del self.seen[observation.replica]
        self.orders.pop(fence, None)
        return True

    def report(self) -> list[Observation]:
        self._answer()
        return list(self.seen.values())

    def step(self, old: ReplicaStatus, new: ReplicaStatus, **columns: object) -> None:
        """Everything in one state goes on to another."""
        for observation in list(self.seen.values()):
            if observation.status is old:
                self._move(observation, new, **columns)

    def lose_all(self) -> None:
        self.orders.clear()
        self.seen.clear()

    def _of(self, fence: int) -> list[Observation]:
        return [o for o in self.seen.values() if o.fence == fence]

    def _move(self, observation: Observation, to: ReplicaStatus, **columns: object) -> None:
        self.seen[observation.replica] = replace(observation, status=to, **columns)

    def _answer(self) -> None:
        if self.is_cut:
            raise SiteUnreachableError("the line is cut")


class ClusterUnderTest:
    """The second site: it chooses nodes by itself, and nobody here knows them."""

    def __init__(self) -> None:
        self.cluster = ClusterInMemory()
        offer = SiteCapabilities(frozenset({BOARD}), frozenset({SliceKind.GPU}), max_replicas=4)
        self.site = RemoteSite("fake-cluster", self.cluster, offer)
        register(self.site)

    def choose(self, job: Job) -> None:
        """The cluster chooses by itself."""

    def begin(self, job: Job) -> bool:
        return self.site.begin(JobPlacement(str(job.pk), ()))

    def prepare(self) -> None:
        sites_drive(timezone.now())
        self.cluster.step(ReplicaStatus.PENDING, ReplicaStatus.PREPARING)
        sites_observe(timezone.now())

    def settle(self) -> None:
        for _ in range(4):
            sites_drive(timezone.now())
            self.cluster.step(ReplicaStatus.PREPARING, ReplicaStatus.RUNNING)
            self.cluster.step(ReplicaStatus.PENDING, ReplicaStatus.PREPARING)
            sites_observe(timezone.now())
            # As each planning pass begins.
            allocations_release()

    def finish(self, exit_code: int = 0) -> None:
        self.cluster.step(ReplicaStatus.RUNNING, ReplicaStatus.EXITED, exit_code=exit_code)
        sites_observe(timezone.now())

    def lose(self) -> None:
        self.cluster.lose_all()
        sweep()

    def cut(self) -> None:
        self.cluster.is_cut = True
        sweep()

    def mend(self) -> None:
        self.cluster.is_cut = False
        sweep()

    def deliver(self, observations: Iterable[Observation]) -> ObservationResult:
        return observations_apply(observations, site=self.site.name, actor="site:fake-cluster")

    def left(self) -> set[UUID]:
        return set(self.cluster.seen)


class OwnNodesUnderTest:
    """The first site: two nodes with honest agents."""

    def __init__(self) -> None:
        self.site = OwnNodes()
        self.placements: dict[int, JobPlacement] = {}
        self.nodes = [a_node("first", gpus=4), a_node("second", gpus=4)]

    def choose(self, job: Job) -> None:
        if job.pk not in self.placements:
            policy = current_policy()
            snapshot = planner_input(now=timezone.now(), policy=policy)
            plan = decide(snapshot, policy, RuntimeModel.from_snapshot(snapshot))
            self.placements |= {int(placement.job): placement for placement in plan.placements}

    def begin(self, job: Job) -> bool:
        self.choose(job)
        placement = self.placements.get(job.pk)
        return placement is not None and self.site.begin(placement)

    def prepare(self) -> None:
        for node in self.nodes:
            node_drive(node_id=node.row.pk)
            for wanted in node.hear().replicas:
                node.replicas[wanted.id] = ObservedReplica(
                    id=wanted.id,
                    job=wanted.job,
                    attempt=wanted.attempt,
                    rank=wanted.rank,
                    fence=wanted.fence,
                    state=ReplicaState.PREPARING,
                )
            node.report()

    def settle(self) -> None:
        for _ in range(4):
            self.site.drive()
            for node in self.nodes:
                node_drive(node_id=node.row.pk)
                for key, seen in node.replicas.items():
                    if seen.state is ReplicaState.PREPARING:
                        node.replicas[key] = replace(
                            seen, state=ReplicaState.READY, address="127.0.0.1", port=29_500
                        )
                node.obey()
            # As each planning pass begins.
            allocations_release()

    def finish(self, exit_code: int = 0) -> None:
        for node in self.nodes:
            node.finish(exit_code)

    def lose(self) -> None:
        """Both machines burn: they are silent until their leases have ended."""
        self._silent(timedelta(hours=1), lease=timedelta(hours=-1))

    def cut(self) -> None:
        self._silent(timedelta(seconds=40), lease=timedelta(minutes=5))

    def mend(self) -> None:
        rows = Node.objects.filter(pk__in=[node.row.pk for node in self.nodes])
        rows.update(status=NodeStatus.ONLINE, last_seen_at=timezone.now())
        sweep()

    def deliver(self, observations: Iterable[Observation]) -> ObservationResult:
        return observations_apply(observations, node=self.nodes[0].row, actor="node:first")

    def left(self) -> set[UUID]:
        return {UUID(key) for node in self.nodes for key in node.replicas}

    def _silent(self, since: timedelta, *, lease: timedelta) -> None:
        now = timezone.now()
        rows = Node.objects.filter(pk__in=[node.row.pk for node in self.nodes])
        rows.update(last_seen_at=now - since, lease_until=now + lease)
        sweep()


def a_stranger() -> UUID:
    """The id of no replica."""
    return uuid4()


def a_gang(owner: User, project: Project, **fields: Any) -> Job:
    """Two replicas with a whole GPU each."""
    return a_job(owner, project, **({"device": {"gpus": 1}, "replicas": 2} | fields))


def status_of(job: Job) -> str:
    return Job.objects.values_list("status", flat=True).get(pk=job.pk)


def used_units() -> int:
    """Of the only quota that there is."""
    return Quota.objects.get().used_units


def observation_of(
    replica: Replica, status: ReplicaStatus, *, fence: int | None = None
) -> Observation:
    """With the fence of the replica's attempt, unless another one is given."""
    return Observation(replica.pk, replica.attempt.fence if fence is None else fence, status)


def silence_codes(job: Job) -> list[str]:
    """The events of the job about sites that fall silent and answer again."""
    rows = Event.objects.filter(job=job, code__startswith="site_").order_by("id")
    return list(rows.values_list("code", flat=True))
