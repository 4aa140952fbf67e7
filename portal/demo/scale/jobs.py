"""Live jobs, waiting jobs, and ended jobs of the last 90 days with their allocations."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from agents.contract.documents import SliceKind
from portal.accounts.models import Project, User
from portal.allocations.models import Allocation
from portal.demo.scale.devices import DevicePool, gpu_slice
from portal.demo.scale.failures import diagnose_seeded
from portal.demo.scale.people import People
from portal.demo.scale.reasons import random_code, random_estimate, random_reason
from portal.demo.scale.requests import JobFactory
from portal.demo.scale.size import DAYS, SeededRandom
from portal.inventory.models import Gpu, Slice
from portal.jobs.models import Attempt, DesiredState, Job, Replica, StopReason
from scheduler.core.model.reasons import ReasonCode
from scheduler.core.model.states import (
    JOB_FAILED,
    AllocationStatus,
    JobStatus,
    ReplicaStatus,
    SliceStatus,
)

# Percent of all jobs that are live (have devices now), and that wait.
LIVE_PERCENT, WAITING_PERCENT = 34, 12
GANGS = (1, 1, 1, 1, 2, 2, 4, 8)
# Of 25 live jobs, these are not running.
STATES = {3: JobStatus.PREPARING, 11: JobStatus.STOPPING, 19: JobStatus.PLACED}
REPLICA_STATUS = {
    JobStatus.PLACED: ReplicaStatus.PENDING,
    JobStatus.PREPARING: ReplicaStatus.PREPARING,
    JobStatus.RUNNING: ReplicaStatus.RUNNING,
    JobStatus.STOPPING: ReplicaStatus.RUNNING,
}
ENDS = [JobStatus.SUCCEEDED] * 74 + [JobStatus.FAILED] * 14 + [JobStatus.CANCELLED] * 8
ENDS += [JobStatus.TIMED_OUT] * 4
SECOND = timedelta(seconds=1)


@dataclass(slots=True)
class JobRows:
    """Unsaved rows, linked to one another."""

    jobs: list[Job] = field(default_factory=list)
    attempts: list[Attempt] = field(default_factory=list)
    replicas: list[Replica] = field(default_factory=list)
    allocations: list[Allocation] = field(default_factory=list)


@dataclass(slots=True)
class JobGenerator:
    """Makes the rows of jobs."""

    rng: SeededRandom
    people: People
    devices: DevicePool
    job_factory: JobFactory
    rows: JobRows = field(default_factory=JobRows)
    # Since when a live job has the GPU; ended jobs end before.
    busy_since: dict[Gpu, datetime] = field(default_factory=dict)

    def add_live(self, count: int) -> None:
        """Live jobs on whole GPUs, alone or in gangs, on MIG slices and on MPS shares."""
        for place in self._places():
            if len(self.rows.jobs) >= count:
                return
            self._add_live_job(*place)

    def add_waiting(self, count: int) -> None:
        position = 0
        for nth in range(count):
            owner, project = self._owner_and_project(nth)
            gpus = self.rng.random.choice(GANGS)
            device: dict[str, Any] = {"gpus": gpus}
            words, replicas = "GPU", self.rng.random.choice((1, 1, 1, 1, 2, 4))
            if self.rng.happens(30):
                words = self.rng.random.choice(("1g.18gb", "2g.35gb", "3g.71gb", "3g.40gb"))
                device, gpus = {"mig": words}, 1
            job = self.job_factory.make_job(owner, project, device, replicas)
            code = random_code(self.rng)
            job.status, job.queued_at = JobStatus.QUEUED, self.rng.recent_moment(30)
            if nth % 12 == 5:
                code, job.status = ReasonCode.APPROVAL, JobStatus.AWAITING_APPROVAL
                job.priority, job.request = "high", job.request | {"priority": "high"}
            job.reason = random_reason(
                self.rng,
                code,
                project=project.slug,
                user=owner.username,
                device=words,
                need=gpus * replicas,
            )
            if nth % 100 == 77:
                job.status, job.reason = JobStatus.SUBMITTED, None
            if job.status == JobStatus.QUEUED:
                position += 1
                job.position = position
            if code.kind.is_simulated and job.reason:
                job.estimate = random_estimate(self.rng, self.rng.now)
            if code is ReasonCode.HELD:
                job.hold_owner, job.hold_reason = owner.username, "data is still copied"
            if code is ReasonCode.BEGIN_TIME:
                job.begin_at = self.rng.now + timedelta(hours=6)
            self.rows.jobs.append(job)

    def add_ended(self, count: int, gpus: list[Gpu]) -> None:
        by_node: dict[object, list[Gpu]] = {}
        for gpu in gpus:
            by_node.setdefault(gpu.node_id, []).append(gpu)
        nodes, busy = list(by_node.values()), dict.fromkeys(gpus, self.rng.now)
        for nth in range(count):
            node_gpus = self.rng.random.choice(nodes)
            self._add_ended_job(nth, node_gpus[: self.rng.random.choice(GANGS)], busy)

    def _places(self) -> list[tuple[list[list[Gpu | Slice]], Project | None]]:
        """Gangs in random order: the devices of each replica, and the project if it is fixed."""
        places: list[tuple[list[list[Gpu | Slice]], Project | None]] = []
        for gpus in self.devices.whole_gpus.values():
            at = 0
            while at < len(gpus):
                size = self.rng.random.choice(GANGS)
                chosen = gpus[at : at + size]
                at += size
                one_each = self.rng.happens(15)
                places.append(([[gpu] for gpu in chosen] if one_each else [list(chosen)], None))
        places += [([[row]], None) for row in self.devices.carved]
        places += [([[share]], project) for project, share in self.devices.shares]
        self.rng.random.shuffle(places)
        return places

    def _add_live_job(self, gang: list[list[Gpu | Slice]], only: Project | None) -> None:
        owner, project = self._owner_and_project(len(self.rows.jobs), only)
        status = STATES.get(len(self.rows.jobs) % 25, JobStatus.RUNNING)
        job = self.job_factory.make_job(owner, project, _device_of(gang), len(gang))
        began = self.rng.recent_moment(min(12.0, job.time_limit_seconds * 0.9 / 3_600))
        job.queued_at = began - SECOND * self.rng.random.randint(2, 4_000)
        job.status = status
        bound = began if status in (JobStatus.RUNNING, JobStatus.STOPPING) else None
        if bound:
            job.started_at = bound
            job.deadline_at = bound + SECOND * job.time_limit_seconds
        if status is JobStatus.STOPPING:
            job.stop_reason = StopReason.CANCELLED
        attempt = Attempt(job=job, number=1, created_at=began - 5 * SECOND)
        self.rows.jobs.append(job)
        self.rows.attempts.append(attempt)
        for rank, devices in enumerate(gang):
            node = _gpu(devices[0]).node
            replica = Replica(
                id=self.rng.uuid(),
                attempt=attempt,
                rank=rank,
                node=node,
                desired_state=DesiredState.STOP
                if status is JobStatus.STOPPING
                else DesiredState.RUN,
                status=REPLICA_STATUS[status],
                container=f"c-{rank}",
                started_at=bound,
                ready_at=bound,
            )
            self.rows.replicas.append(replica)
            for index, device in enumerate(devices):
                self._allocate(replica, job, self._slice_for(device, status), index, began, bound)

    def _slice_for(self, device: Gpu | Slice, status: JobStatus) -> Slice:
        """The job's slice; not ready yet if the job is not running yet."""
        row = device
        if isinstance(row, Gpu):
            row = gpu_slice(self.rng, row)
            self.devices.slices.append(row)
        if status in (JobStatus.PLACED, JobStatus.PREPARING):
            is_planned = status is JobStatus.PLACED
            row.status = SliceStatus.PLANNED if is_planned else SliceStatus.CREATING
        return row

    def _allocate(
        self,
        replica: Replica,
        job: Job,
        slice_: Slice,
        index: int,
        began: datetime,
        bound: datetime | None,
    ) -> None:
        self.busy_since[slice_.gpu] = min(began, self.busy_since.get(slice_.gpu, began))
        stopping = job.status == JobStatus.STOPPING
        released = job.finished_at
        status = AllocationStatus.RESERVED if bound is None else AllocationStatus.BOUND
        status = AllocationStatus.RELEASING if stopping else status
        row = Allocation(
            id=self.rng.uuid(),
            replica=replica,
            slice=slice_,
            project=job.project,
            user=job.owner,
            units=slice_.units,
            cpu_milli=0 if index else job.cpu_milli,
            memory_mib=0 if index else job.memory_mib,
            status=AllocationStatus.RELEASED if released else status,
            reserved_at=began - 5 * SECOND,
            bound_at=bound,
            released_at=released,
        )
        if released and bound:
            row.used_seconds = max(0, (released - bound) // SECOND)
        self.rows.allocations.append(row)

    def _add_ended_job(self, nth: int, gpus: list[Gpu], busy: dict[Gpu, datetime]) -> None:
        """An ended job in the free time of these GPUs, from the newest backwards."""
        free = min(min(busy[gpu], self.busy_since.get(gpu, self.rng.now)) for gpu in gpus)
        owner, project = self._owner_and_project(nth)
        job = self.job_factory.make_job(owner, project, {"gpus": len(gpus)})
        max_seconds = min(job.time_limit_seconds, 2 * 86_400)
        ran = SECOND * self.rng.random.randint(40, max_seconds)
        back = (self.rng.random.random() ** 1.3) * (DAYS - 4) * 86_400
        end = min(free - SECOND * 30, self.rng.now - SECOND * int(back))
        start = end - ran
        if start < self.rng.now - timedelta(days=DAYS):
            start = end - 40 * SECOND
        for gpu in gpus:
            busy[gpu] = start - 10 * SECOND
        job.status = self.rng.random.choice(ENDS)
        job.stop_reason = StopReason(job.status)
        job.queued_at = start - SECOND * self.rng.random.randint(2, 9_000)
        job.started_at, job.finished_at = start, end
        code = {JobStatus.FAILED: self.rng.random.choice((1, 1, 2, 137, 139))}.get(job.status, 0)
        attempt = Attempt(
            job=job, number=1, created_at=start, ended_at=end, outcome=job.stop_reason
        )
        failed = {"rank": 0, "status": "exited", "exit_code": code, "code": ""}
        if code:
            attempt.first_failure = failed | {"sentence": f"rank 0 ended with exit code {code}"}
        if job.status in JOB_FAILED:
            diagnose_seeded(job, attempt, nth, code)
        replica = Replica(
            id=self.rng.uuid(),
            attempt=attempt,
            rank=0,
            node=gpus[0].node,
            desired_state=DesiredState.GONE,
            status=ReplicaStatus.EXITED,
            exit_code=code,
            memory_kill=code == 137,
            gone_revision=1,
            ready_at=start,
            started_at=start,
            finished_at=end,
        )
        self.rows.jobs.append(job)
        self.rows.attempts.append(attempt)
        self.rows.replicas.append(replica)
        for index, gpu in enumerate(gpus):
            row = gpu_slice(self.rng, gpu)
            row.status, row.device_uuid = SliceStatus.DELETED, ""
            row.ready_at, row.deleted_at = start, end
            self.devices.slices.append(row)
            busy_since = self.busy_since.get(gpu)
            self._allocate(replica, job, row, index, start, start)
            self._restore_busy_since(gpu, busy_since)

    def _restore_busy_since(self, gpu: Gpu, since: datetime | None) -> None:
        if since is None:
            self.busy_since.pop(gpu, None)
        else:
            self.busy_since[gpu] = since

    def _owner_and_project(self, nth: int, only: Project | None = None) -> tuple[User, Project]:
        """Every 50th job is alice's, in the first project; the others are random."""
        first = self.people.projects[0]
        if nth % 50 == 7 and self.people.alice and only in (None, first):
            return self.people.alice, first
        project = only or self.rng.random.choice(self.people.projects)
        members = self.people.members[project.pk] or self.people.members[first.pk]
        return self.rng.random.choice(members), project


def _gpu(device: Gpu | Slice) -> Gpu:
    return device.gpu if isinstance(device, Slice) else device


def _device_of(gang: Iterable[list[Gpu | Slice]]) -> dict[str, Any]:
    devices = next(iter(gang))
    first = devices[0]
    if isinstance(first, Gpu):
        return {"gpus": len(devices)}
    if first.kind == SliceKind.MPS:
        return {"mps": {"threads": first.threads, "memory": f"{first.memory_mib}MiB"}}
    return {"mig": first.profile}
