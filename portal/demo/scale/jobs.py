"""Jobs that hold devices now, jobs that wait, and jobs of the last 90 days with what they held."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from agents.contract.documents import SliceKind
from portal.accounts.models import Project, User
from portal.demo.scale.devices import Devices, whole_slice
from portal.demo.scale.people import People
from portal.demo.scale.reasons import FORETOLD, any_code, estimate, reason
from portal.demo.scale.requests import Asker
from portal.demo.scale.size import DAYS, Chance
from portal.inventory.models import Gpu, Slice
from portal.jobs.models import Allocation, Attempt, DesiredState, Job, Replica, StopReason
from scheduler.core.model.reasons import ReasonCode
from scheduler.core.model.states import AllocationStatus, JobStatus, ReplicaStatus, SliceStatus

# Percent of all jobs that may hold devices now, and that wait.
LIVE, WAITING = 34, 12
GANGS = (1, 1, 1, 1, 2, 2, 4, 8)
# Of 25 jobs that hold devices, these are not running yet or no more.
STATES = {3: JobStatus.PREPARING, 11: JobStatus.STOPPING, 19: JobStatus.PLACED}
OF_REPLICA = {
    JobStatus.PLACED: ReplicaStatus.PENDING,
    JobStatus.PREPARING: ReplicaStatus.PREPARING,
    JobStatus.RUNNING: ReplicaStatus.RUNNING,
    JobStatus.STOPPING: ReplicaStatus.RUNNING,
}
ENDS = [JobStatus.SUCCEEDED] * 74 + [JobStatus.FAILED] * 14 + [JobStatus.CANCELLED] * 8
ENDS += [JobStatus.TIMED_OUT] * 4
SECOND = timedelta(seconds=1)


@dataclass(slots=True)
class Work:
    """Unsaved rows, linked to one another."""

    jobs: list[Job] = field(default_factory=list)
    attempts: list[Attempt] = field(default_factory=list)
    replicas: list[Replica] = field(default_factory=list)
    allocations: list[Allocation] = field(default_factory=list)


@dataclass(slots=True)
class Writer:
    """`since`: from when on a GPU is held by a job of now; jobs of the past end before."""

    chance: Chance
    people: People
    devices: Devices
    asker: Asker
    work: Work = field(default_factory=Work)
    since: dict[Gpu, datetime] = field(default_factory=dict)

    def live(self, most: int) -> None:
        """On whole GPUs alone and in gangs, on slices, on shares."""
        for place in self._places():
            if len(self.work.jobs) >= most:
                return
            self._hold(*place)

    def waiting(self, count: int) -> None:
        for nth in range(count):
            owner, project = self._whose(nth)
            gpus = self.chance.random.choice(GANGS)
            device: dict[str, Any] = {"gpus": gpus}
            words, replicas = "GPU", self.chance.random.choice((1, 1, 1, 1, 2, 4))
            if self.chance.happens(30):
                words = self.chance.random.choice(("1g.18gb", "2g.35gb", "3g.71gb", "3g.40gb"))
                device, gpus = {"mig": words}, 1
            job = self.asker.job(owner, project, device, replicas)
            code = any_code(self.chance)
            job.status, job.queued_at = JobStatus.QUEUED, self.chance.back(30)
            if nth % 12 == 5:
                code, job.status = ReasonCode.APPROVAL, JobStatus.AWAITING_APPROVAL
                job.priority, job.request = "high", job.request | {"priority": "high"}
            job.reason = reason(
                self.chance,
                code,
                project=project.slug,
                user=owner.username,
                device=words,
                need=gpus * replicas,
            )
            if nth % 100 == 77:
                job.status, job.reason = JobStatus.SUBMITTED, None
            if job.status == JobStatus.QUEUED:
                job.position = nth + 1
            if code in FORETOLD and job.reason:
                job.estimate = estimate(self.chance, self.chance.now)
            if code is ReasonCode.HELD:
                job.hold_owner, job.hold_reason = owner.username, "data is still copied"
            if code is ReasonCode.BEGIN_TIME:
                job.begin_at = self.chance.now + timedelta(hours=6)
            self.work.jobs.append(job)

    def past(self, count: int, gpus: list[Gpu]) -> None:
        by_node: dict[object, list[Gpu]] = {}
        for gpu in gpus:
            by_node.setdefault(gpu.node_id, []).append(gpu)
        there, busy = list(by_node.values()), dict.fromkeys(gpus, self.chance.now)
        for nth in range(count):
            here = self.chance.random.choice(there)
            self._ended(nth, here[: self.chance.random.choice(GANGS)], busy)

    def _places(self) -> list[tuple[list[list[Gpu | Slice]], Project | None]]:
        """Gangs in any order: a list of devices for each replica; and the project, where it must
        be this one."""
        found: list[tuple[list[list[Gpu | Slice]], Project | None]] = []
        for gpus in self.devices.whole.values():
            at = 0
            while at < len(gpus):
                size = self.chance.random.choice(GANGS)
                some = gpus[at : at + size]
                at += size
                one_each = self.chance.happens(15)
                found.append(([[gpu] for gpu in some] if one_each else [list(some)], None))
        found += [([[row]], None) for row in self.devices.carved]
        found += [([[share]], project) for project, share in self.devices.shares]
        self.chance.random.shuffle(found)
        return found

    def _hold(self, gang: list[list[Gpu | Slice]], only: Project | None) -> None:
        owner, project = self._whose(len(self.work.jobs), only)
        status = STATES.get(len(self.work.jobs) % 25, JobStatus.RUNNING)
        job = self.asker.job(owner, project, _asked(gang), len(gang))
        began = self.chance.back(min(12.0, job.time_limit_seconds * 0.9 / 3_600))
        job.queued_at = began - SECOND * self.chance.random.randint(2, 4_000)
        job.status = status
        bound = began if status in (JobStatus.RUNNING, JobStatus.STOPPING) else None
        if bound:
            job.started_at = bound
            job.deadline_at = bound + SECOND * job.time_limit_seconds
        if status is JobStatus.STOPPING:
            job.stop_reason = StopReason.CANCELLED
        attempt = Attempt(job=job, number=1, created_at=began - 5 * SECOND)
        self.work.jobs.append(job)
        self.work.attempts.append(attempt)
        for rank, devices in enumerate(gang):
            node = _gpu(devices[0]).node
            replica = Replica(
                id=self.chance.uuid(),
                attempt=attempt,
                rank=rank,
                node=node,
                desired_state=DesiredState.STOP if status is JobStatus.STOPPING else DesiredState.RUN,
                status=OF_REPLICA[status],
                container=f"c-{rank}",
                started_at=bound,
                ready_at=bound,
            )
            self.work.replicas.append(replica)
            for index, device in enumerate(devices):
                self._allocate(replica, job, self._made(device, status), index, began, bound)

    def _made(self, device: Gpu | Slice, status: JobStatus) -> Slice:
        """The slice that is held; still in the making where the job is not ready."""
        row = device
        if isinstance(row, Gpu):
            row = whole_slice(self.chance, row)
            self.devices.slices.append(row)
        if status in (JobStatus.PLACED, JobStatus.PREPARING):
            is_planned = status is JobStatus.PLACED
            row.status = SliceStatus.PLANNED if is_planned else SliceStatus.CREATING
        return row

    def _allocate(
        self,
        replica: Replica,
        job: Job,
        held: Slice,
        index: int,
        began: datetime,
        bound: datetime | None,
    ) -> None:
        self.since[held.gpu] = min(began, self.since.get(held.gpu, began))
        stopping = job.status == JobStatus.STOPPING
        released = job.finished_at
        status = AllocationStatus.RESERVED if bound is None else AllocationStatus.BOUND
        status = AllocationStatus.RELEASING if stopping else status
        row = Allocation(
            id=self.chance.uuid(),
            replica=replica,
            slice=held,
            project=job.project,
            user=job.owner,
            units=held.units,
            cpu_milli=0 if index else job.cpu_milli,
            memory_mib=0 if index else job.memory_mib,
            status=AllocationStatus.RELEASED if released else status,
            reserved_at=began - 5 * SECOND,
            bound_at=bound,
            released_at=released,
        )
        if released and bound:
            row.used_seconds = max(0, (released - bound) // SECOND)
        self.work.allocations.append(row)

    def _ended(self, nth: int, gpus: list[Gpu], busy: dict[Gpu, datetime]) -> None:
        """A job of the past on the free time of these GPUs, newest first."""
        free = min(min(busy[gpu], self.since.get(gpu, self.chance.now)) for gpu in gpus)
        owner, project = self._whose(nth)
        job = self.asker.job(owner, project, {"gpus": len(gpus)})
        most = min(job.time_limit_seconds, 2 * 86_400)
        ran = SECOND * self.chance.random.randint(40, most)
        back = (self.chance.random.random() ** 1.3) * (DAYS - 4) * 86_400
        end = min(free - SECOND * 30, self.chance.now - SECOND * int(back))
        start = end - ran
        if start < self.chance.now - timedelta(days=DAYS):
            start = end - 40 * SECOND
        for gpu in gpus:
            busy[gpu] = start - 10 * SECOND
        job.status = self.chance.random.choice(ENDS)
        job.stop_reason = StopReason(job.status)
        job.queued_at = start - SECOND * self.chance.random.randint(2, 9_000)
        job.started_at, job.finished_at = start, end
        code = {JobStatus.FAILED: self.chance.random.choice((1, 1, 2, 137, 139))}.get(job.status, 0)
        attempt = Attempt(
            job=job, number=1, created_at=start, ended_at=end, outcome=job.stop_reason
        )
        failed = {"rank": 0, "status": "exited", "exit_code": code, "code": ""}
        if code:
            attempt.first_failure = failed | {"sentence": f"rank 0 ended with exit code {code}"}
        replica = Replica(
            id=self.chance.uuid(),
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
        self.work.jobs.append(job)
        self.work.attempts.append(attempt)
        self.work.replicas.append(replica)
        for index, gpu in enumerate(gpus):
            row = whole_slice(self.chance, gpu)
            row.status, row.device_uuid = SliceStatus.DELETED, ""
            row.ready_at, row.deleted_at = start, end
            self.devices.slices.append(row)
            kept = self.since.get(gpu)
            self._allocate(replica, job, row, index, start, start)
            self._keep(gpu, kept)

    def _keep(self, gpu: Gpu, since: datetime | None) -> None:
        if since is None:
            self.since.pop(gpu, None)
        else:
            self.since[gpu] = since

    def _whose(self, nth: int, only: Project | None = None) -> tuple[User, Project]:
        """Alice has some of everything in the first project; else anybody of any project."""
        first = self.people.projects[0]
        if nth % 50 == 7 and self.people.alice and only in (None, first):
            return self.people.alice, first
        project = only or self.chance.random.choice(self.people.projects)
        members = self.people.of[project.pk] or self.people.of[first.pk]
        return self.chance.random.choice(members), project


def _gpu(device: Gpu | Slice) -> Gpu:
    return device.gpu if isinstance(device, Slice) else device


def _asked(gang: Iterable[list[Gpu | Slice]]) -> dict[str, Any]:
    devices = next(iter(gang))
    first = devices[0]
    if isinstance(first, Gpu):
        return {"gpus": len(devices)}
    if first.kind == SliceKind.MPS:
        return {"mps": {"threads": first.threads, "memory": f"{first.memory_mib}MiB"}}
    return {"mig": first.profile}
