"""Builders of rows, and a node in memory that follows its desired document step by step."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field, replace
from typing import Any

from django.utils import timezone

from agents.contract.boards import known_boards
from agents.contract.caches import OfferedCache
from agents.contract.documents import (
    DesiredDocument,
    DesiredReplica,
    DesiredReplicaState,
    DesiredSlice,
    GpuMode,
    NodeFacts,
    ObservedDocument,
    ObservedGpu,
    ObservedProfile,
    ObservedReplica,
    ObservedSlice,
    ReplicaState,
    RuntimeKind,
    read_desired,
)
from agents.contract.gang_network import NodeOverlay
from agents.contract.image_needs import NO_FIT, NodeFit
from agents.contract.launcher_names import FIRST_LAUNCHERS
from agents.contract.rank_network import RankNetwork
from agents.contract.topology import NodeTopology
from agents.contract.volumes import OfferedRoot
from portal.accounts.models import Membership, Project, Role, User
from portal.agentapi.node_report import node_report
from portal.allocations.models import Allocation
from portal.desired.services import node_drive
from portal.inventory.models import Node
from portal.jobs.models import Job
from portal.quotas.models import Quota
from portal.submission.services import job_submit
from scheduler.core.model.states import NodeStatus
from scheduler.core.request import RequestLimits, parse_request
from scheduler.tasks import plan_once

_numbers = itertools.count(1)
LIMITS = RequestLimits()


def a_user(name: str = "", **columns: Any) -> User:
    return User.objects.create_user(name or f"user{next(_numbers)}", password="pw", **columns)


def a_project(slug: str = "", *members: User, gpus: int = 8, role: Role = Role.MEMBER) -> Project:
    project = Project.objects.create(slug=slug or f"project-{next(_numbers)}", name=slug)
    for member in members:
        Membership.objects.create(project=project, user=member, role=role)
    units = gpus * 56_000
    Quota.objects.create(project=project, limit_units=units, guard_units=units)
    return project


def a_request(home: Project, **fields: Any) -> dict[str, Any]:
    body = {
        "project": home.slug,
        "name": "sum",
        "image": "tessera-example:latest",
        "command": ["python", "sum.py"],
        "device": {"mig": "2g.35gb"},
        "cpu": 1,
        "memory": "1GiB",
        "time_limit": "1h",
    }
    return body | fields


def a_job(user: User, home: Project, **fields: Any) -> Job:
    request = parse_request(a_request(home, **fields), LIMITS)
    return job_submit(user=user, request=request)


@dataclass
class HonestNode:
    """What a good agent would report: it makes slices, prepares, runs and ends what it is told."""

    row: Node
    board: str = "H200-141GB"
    gpus: int = 1
    replicas: dict[str, ObservedReplica] = field(default_factory=dict)
    slices: tuple[ObservedSlice, ...] = ()
    modes: dict[str, GpuMode] = field(default_factory=dict)
    desired: DesiredDocument | None = None
    makes: int = 0
    blocks: tuple[str, ...] = ()
    faults: dict[int, str] = field(default_factory=dict)
    busy: dict[int, str] = field(default_factory=dict)
    unknown: str = ""
    profiles: tuple[ObservedProfile, ...] = ()
    disk_mib: int | None = None
    launchers: tuple[str, ...] = FIRST_LAUNCHERS
    agent_version: str = ""
    on_lease_end: str = "stop"
    volume_roots: tuple[OfferedRoot, ...] = ()
    # What tags mean here; empty on a node that knows no digests.
    digest: str = ""
    fit: NodeFit = NO_FIT
    caches: tuple[OfferedCache, ...] = ()
    address: str = ""
    overlay: NodeOverlay | None = None
    rank_network: RankNetwork | None = None
    git_hosts: tuple[str, ...] = ()
    # What branches mean here; a rank without a commit waits.
    commit: str = ""
    limits_egress: bool = False
    has_profiler: bool = False
    simulated: bool = True
    topology: NodeTopology = field(default_factory=NodeTopology)

    def uuid(self, index: int) -> str:
        return f"GPU-{self.row.name}-{index}"

    def observed(self) -> ObservedDocument:
        board = known_boards()[self.board]
        return ObservedDocument(
            node=str(self.row.pk),
            boot_id="boot",
            facts=NodeFacts(
                cpu_milli=64_000,
                memory_mib=512 * 1024,
                runtime=RuntimeKind.PROCESS,
                fabric="test",
                simulated=self.simulated,
                share_clients=48,
                problems=self.blocks,
                blocks=self.blocks,
                disk_mib=self.disk_mib,
                launchers=self.launchers,
                agent_version=self.agent_version,
                on_lease_end=self.on_lease_end,
                volume_roots=self.volume_roots,
                pins_images=bool(self.digest),
                cuda_version=self.fit.cuda,
                driver_version=self.fit.driver,
                architecture=self.fit.architecture,
                caches=self.caches,
                address=self.address,
                overlay=self.overlay,
                rank_network=self.rank_network,
                git_hosts=self.git_hosts,
                limits_egress=self.limits_egress,
                has_profiler=self.has_profiler,
            ),
            gpus=tuple(
                ObservedGpu(
                    uuid=self.uuid(i),
                    index=i,
                    product_name=self.unknown or board.product_names[0],
                    board=self.unknown or self.board,
                    profiles=self.profiles,
                    busy=self.busy.get(i, ""),
                    memory_mib=board.memory_mib,
                    mode=self.modes.get(self.uuid(i), GpuMode.WHOLE),
                    mode_pending=self.modes.get(self.uuid(i), GpuMode.WHOLE),
                    healthy=i not in self.faults,
                    health_reason=self.faults.get(i, ""),
                )
                for i in range(self.gpus)
            ),
            slices=self.slices,
            replicas=tuple(self.replicas.values()),
            topology=self.topology,
        )

    def report(self) -> None:
        """Say what is there, as the sync call does."""
        revision = self.desired.revision if self.desired else 0
        now = timezone.now()
        Node.objects.filter(pk=self.row.pk).update(applied_revision=revision, last_seen_at=now)
        node_report(self.row.pk, self.observed())

    def hear(self) -> DesiredDocument:
        """Take the desired document that stands in the row now."""
        self.row.refresh_from_db()
        self.desired = read_desired(self.row.desired) if self.row.desired else None
        assert self.desired is not None, "the node was told nothing"
        return self.desired

    def obey(self) -> None:
        """One round: hear, make it true, report. Running replicas go on until `finish`."""
        self.carry_out()
        self.report()

    def carry_out(self) -> None:
        """Hear and make it true. What comes of it is reported later."""
        desired = self.hear()
        self.modes = {g.uuid: g.mode for g in desired.gpus}
        kept = {(s.gpu_uuid, s.start, s.profile): s for s in self.slices}
        self.slices = tuple(
            kept.get((s.gpu_uuid, s.start, s.profile)) or self._made(s) for s in desired.slices
        )
        wanted = {r.id: r for r in desired.replicas}
        for gone in set(self.replicas) - set(wanted):
            del self.replicas[gone]
        for replica in wanted.values():
            self.replicas[replica.id] = self._moved(replica)

    def finish(self, exit_code: int = 0, **columns: Any) -> None:
        """Every running replica ends."""
        for key, seen in self.replicas.items():
            if seen.state is ReplicaState.RUNNING:
                ended: dict[str, Any] = {"state": ReplicaState.EXITED, "exit_code": exit_code}
                self.replicas[key] = replace(seen, **(ended | columns))
        self.report()

    def _made(self, wanted: DesiredSlice) -> ObservedSlice:
        self.makes += 1
        return ObservedSlice(
            gpu_uuid=wanted.gpu_uuid,
            profile=wanted.profile,
            start=wanted.start,
            size=wanted.size,
            uuid=f"MIG-{self.row.name}-{self.makes}",
        )

    def _moved(self, wanted: DesiredReplica) -> ObservedReplica:
        seen = self.replicas.get(wanted.id) or ObservedReplica(
            id=wanted.id,
            job=wanted.job,
            attempt=wanted.attempt,
            rank=wanted.rank,
            fence=wanted.fence,
            state=ReplicaState.READY,
            container=f"c-{wanted.id}",
            address="127.0.0.1",
            port=29_500,
        )
        if code := wanted.code_git:
            found = code.commit or (self.commit if wanted.rank == 0 else "")
            if not found:
                return replace(seen, state=ReplicaState.PREPARING, container="")
            is_first = seen.state is ReplicaState.PREPARING
            state = ReplicaState.READY if is_first else seen.state
            seen = replace(seen, state=state, code_commit=seen.code_commit or found)
        if seen.state is ReplicaState.READY:
            seen = replace(seen, image_digest=wanted.image_digest or self.digest)
        if wanted.wish is DesiredReplicaState.RUN and seen.state is ReplicaState.READY:
            assert wanted.rendezvous or wanted.world == 1, "told to run without a rendezvous"
            return replace(seen, state=ReplicaState.RUNNING)
        if wanted.wish is DesiredReplicaState.STOP and seen.state is ReplicaState.RUNNING:
            return replace(seen, state=ReplicaState.EXITED, exit_code=143)
        not_started = seen.state in (ReplicaState.PREPARING, ReplicaState.READY)
        if wanted.wish is DesiredReplicaState.STOP and not_started:
            return replace(seen, state=ReplicaState.FAILED, code="never_started")
        return seen


def a_node(name: str = "", *, gpus: int = 1, board: str = "H200-141GB") -> HonestNode:
    """An online node that has reported once."""
    row = Node.objects.create(name=name or f"node-{next(_numbers)}")
    now = timezone.now()
    columns = {"status": NodeStatus.ONLINE, "last_seen_at": now, "lease_until": now}
    Node.objects.filter(pk=row.pk).update(**columns)
    node = HonestNode(row=row, board=board, gpus=gpus)
    node.report()
    return node


def settle(*nodes: HonestNode, rounds: int = 6) -> None:
    """Let planner, drivers and nodes take turns until a round changes nothing."""
    before = None
    for _ in range(rounds):
        plan_once()
        for node in nodes:
            node_drive(node_id=node.row.pk)
            node.obey()
        now = _state(nodes)
        if now == before:
            return
        before = now


def _state(nodes: tuple[HonestNode, ...]) -> tuple[object, ...]:
    """What a round can change: statuses of jobs and allocations, and what nodes want and have."""
    return (
        list(Job.objects.order_by("pk").values_list("pk", "status")),
        list(Allocation.objects.order_by("pk").values_list("pk", "status")),
        [(node.desired, node.observed()) for node in nodes],
    )
