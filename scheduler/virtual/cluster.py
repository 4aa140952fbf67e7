"""A virtual cluster: what the planner sees of it, and how each decision changes that."""

from dataclasses import replace

from scheduler.core.devices.options import node_boards
from scheduler.core.model.decisions import Carve, JobPlacement, Merge
from scheduler.core.model.snapshot import ClusterSnapshot, DemandMix, RunningJob, WaitingJob
from scheduler.core.quota.holders import board_of_gpus
from scheduler.virtual.devices import VirtualDevices
from scheduler.virtual.totals import SimulationTotals
from scheduler.virtual.usage import OwnerUsage
from scheduler.virtual.values import RecordedWindow, Scenario


class VirtualCluster:
    """Devices, queue, running jobs, and the use of owners."""

    def __init__(self, scenario: Scenario, window: RecordedWindow, mix: DemandMix) -> None:
        boards = board_of_gpus(scenario.nodes)
        self.totals = SimulationTotals(boards, since=window.since, until=window.until)
        self.waiting: dict[str, WaitingJob] = {}
        self.running: dict[str, RunningJob] = {}
        self.boards = node_boards(scenario.nodes)
        self._devices = VirtualDevices(scenario.nodes)
        self._usage = OwnerUsage(
            *(scenario.quotas, scenario.owners, boards),
            since=window.since,
            half_life_seconds=scenario.policy.half_life_seconds,
        )
        self._mix = mix

    def snapshot(self, now: int) -> ClusterSnapshot:
        return ClusterSnapshot(
            now=now,
            nodes=self._devices.nodes,
            jobs=tuple(self.waiting.values()),
            quotas=self._usage.quotas(),
            running=tuple(self.running.values()),
            owners=self._usage.owners(now),
            mix=self._mix,
        )

    def start(self, place: JobPlacement, now: int, attained_seconds: int) -> RunningJob:
        """Start a waiting job on its placement."""
        job = self.waiting.pop(place.job)
        size = len(place.replicas)
        job = replace(job, attained_seconds=attained_seconds, bypassed=0, replicas=size)
        run = RunningJob(job, self._devices.take(job, place.replicas), now)
        self.running[job.id] = run
        self._usage.started(run)
        self.totals.count_devices(run, 1)
        return run

    def stop(self, key: str, now: int) -> WaitingJob:
        """Stop a running job. Returns the job, for the caller to queue again."""
        run = self.running.pop(key)
        self._devices.give_back(run)
        self._usage.ended(run, now)
        self.totals.count_devices(run, -1)
        return replace(run.job, replicas=min(run.job.sizes)) if run.job.sizes else run.job

    def clear_dependency(self, key: str) -> None:
        """A job is over: no other job depends on it any more."""
        for other, job in self.waiting.items():
            if key in job.after:
                after = tuple(each for each in job.after if each != key)
                self.waiting[other] = replace(job, after=after)

    def set_bypassed(self, key: str, times: int) -> None:
        if key in self.waiting:
            self.waiting[key] = replace(self.waiting[key], bypassed=times)

    def delete(self, merge: Merge) -> None:
        """Begin to delete idle slices."""
        self._devices.delete(merge)

    def deleted(self, merge: Merge, settles_at: int) -> None:
        self._devices.deleted(merge, settles_at)

    def carve(self, carve: Carve) -> str:
        """Begin to make an idle slice. Returns its id."""
        return self._devices.carve(carve)

    def carved(self, gpu: str, key: str) -> None:
        self._devices.carved(gpu, key)
