"""Small shared clusters with quotas, played pass by pass: who is stopped holds its quota until its
grace period has ended."""

from dataclasses import dataclass, field, replace

from hypothesis import strategies as st

from scheduler.core.model.policy import Policy
from scheduler.core.model.snapshot import Priority
from scheduler.core.plan import plan
from tests.support.queue_worlds import a_busy_cluster, a_run, waiting
from tests.support.quotas import GPU, a_nominal
from tests.support.snapshots import NOW

SIZES = [4, 4]
GRACE = 30


@dataclass
class QuotaWorld:
    """What exists, and what has happened."""

    limits: dict
    """GPUs by (project, user); user "" for the project."""
    seconds: dict
    """How long each job runs in total, by id: at most its limit."""
    queue: dict
    coming: list = field(default_factory=list)
    now: int = NOW
    running: dict = field(default_factory=dict)
    ends: dict = field(default_factory=dict)
    started: dict = field(default_factory=dict)
    passes: list = field(default_factory=list)
    """(time, snapshot, plan)."""

    def used(self, owner):
        project, user = owner
        return sum(
            size_of(run.job)
            for run in self.running.values()
            if run.job.project == project and user in ("", run.job.user)
        )

    def snapshot(self):
        quotas = tuple(
            a_nominal(project, limit, used=self.used((project, user)), user=user)
            for (project, user), limit in self.limits.items()
        )
        cluster = a_busy_cluster(SIZES, running=self.running.values(), jobs=self.queue.values())
        return replace(cluster, now=self.now, quotas=quotas)

    def play(self, policy=None, *, max_passes=200):
        """Passes until every job has ended, or cannot start."""
        while max_passes and (self.queue or self.running or self.coming):
            max_passes -= 1
            self._arrive()
            snapshot = self.snapshot()
            found = plan(snapshot, policy or Policy())
            self.passes.append((self.now, snapshot, found))
            for stop in found.preemptions:
                run = self.running[stop.job]
                self.running[stop.job] = replace(run, stopping=True)
                self.ends[stop.job] = min(self.ends[stop.job], self.now + GRACE)
            for place in found.placements:
                self._start(self.queue.pop(place.job), place)
            times = [*self.ends.values(), *(job.queued_at for job in self.coming)]
            if not times:
                return self
            self.now = max(self.now, min(times))
            self._end()
        return self

    def _arrive(self):
        for job in [job for job in self.coming if job.queued_at <= self.now]:
            self.coming.remove(job)
            self.queue[job.id] = job

    def _start(self, job, place):
        gpus = [d.gpu for replica in place.replicas for d in replica.devices]
        self.running[job.id] = replace(a_run(job, *gpus), started_at=self.now)
        self.ends[job.id] = self.now + max(1, self.seconds[job.id] - job.attained_seconds)
        self.started.setdefault(job.id, self.now)

    def _end(self):
        for key in [key for key, at in self.ends.items() if at <= self.now]:
            run = self.running.pop(key)
            del self.ends[key]
            done = run.job.attained_seconds + self.now - run.started_at
            if run.stopping and done < self.seconds[key]:
                again = {"attained_seconds": done, "preempted": run.job.preempted + 1}
                self.queue[key] = replace(run.job, **again)


def size_of(job):
    return job.device.gpus * job.replicas


def in_units(gpus):
    return gpus * GPU


@st.composite
def quota_worlds(draw, *, max_jobs=9, exact=False, priorities=tuple(Priority)):
    """Two projects with quotas, some users with their own. `exact`: jobs run to their limits."""
    limits = {(project, ""): draw(st.integers(1, 5)) for project in "pq"}
    if draw(st.booleans()):
        limits["p", "u"] = draw(st.integers(1, 3))
    jobs, seconds = [], {}
    for number in range(1, draw(st.integers(2, max_jobs)) + 1):
        limit = 100 * draw(st.integers(1, 8))
        seconds[str(number)] = limit if exact else draw(st.integers(1, limit))
        job = waiting(
            str(number),
            gpus=draw(st.sampled_from([1, 1, 2, 3])),
            project=draw(st.sampled_from("ppq")),
            user=draw(st.sampled_from("uuv")),
            priority=draw(st.sampled_from(priorities)),
            preemptible=draw(st.booleans()),
            time_limit_seconds=limit,
            queued_at=NOW + 60 * draw(st.integers(0, 6)),
        )
        jobs.append(job)
    return QuotaWorld(limits, seconds, {}, coming=jobs)
