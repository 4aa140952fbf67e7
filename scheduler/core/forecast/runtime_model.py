"""Outlook: how much work a job still is, learned from what ran before and updated as jobs run.

Time in seconds. No clock: callers say what happened and what time it is.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np

from agents.contract.boards import Board
from agents.contract.units import UNITS_PER_GPU
from scheduler.core.devices.options import device_options, gpu_board
from scheduler.core.forecast import hazard as hz
from scheduler.core.forecast.job_table import JobTable
from scheduler.core.forecast.ratios import LimitRatios, remaining_seconds
from scheduler.core.forecast.similarity import Similarity, normalised_name, size_class
from scheduler.core.model.snapshot import ClusterSnapshot, PastRun, WaitingJob


@dataclass
class _Known:
    """A job that has not ended. `since`: it has run on from `attained` since then."""

    job: WaitingJob
    slot: int
    size: int
    attained: float = 0.0
    since: float | None = None

    def age(self, now: float) -> float:
        return self.attained + (max(0.0, now - self.since) if self.since is not None else 0.0)


@dataclass
class _Layer:
    """Jobs that ended in a bin, and that left it alive. Shape (BINS,)."""

    ended: hz.Floats = field(default_factory=lambda: np.zeros(hz.BINS))
    survived: hz.Floats = field(default_factory=lambda: np.zeros(hz.BINS))


class RuntimeModel:
    """Hazards in three layers (all jobs, same GPU count, the job's group), each shrunken towards
    the one before; and the users' ratios of run time to limit. See jct_policies.md section 3.1."""

    def __init__(
        self, likeness: Similarity | None = None, shrinkage: hz.Shrinkage | None = None
    ) -> None:
        self.ratios = LimitRatios()
        self.runs = 0
        """Ended runs that it learned from."""
        self._likeness = likeness or Similarity()
        self._shrinkage = shrinkage or hz.Shrinkage()
        self._weights = self._likeness.weights()
        self._records = JobTable()
        self._live: dict[str, _Known] = {}
        self._all = _Layer()
        self._rows: dict[int, int] = {}
        self._layers: list[_Layer] = []
        self._curves: hz.Floats | None = None
        self._answered = self._summed = False

    @classmethod
    def from_snapshot(
        cls, snapshot: ClusterSnapshot, likeness: Similarity | None = None
    ) -> "RuntimeModel":
        """From the past, waiting and running jobs of a snapshot, in the order they were submitted
        (a past run that does not say when: as if it had started at once)."""
        self = cls(likeness)
        boards = sorted(
            {gpu_board(gpu) for node in snapshot.nodes for gpu in node.gpus}, key=lambda b: b.key
        )
        events: list[tuple[int, int, PastRun | WaitingJob]] = [
            (run.queued_at or run.ended_at - run.ran_seconds, 0, run) for run in snapshot.history
        ]
        events += [(held.job.queued_at, 1, held.job) for held in snapshot.running]
        events += [(job.queued_at, 1, job) for job in snapshot.jobs]
        for _, _, item in sorted(events, key=lambda e: e[:2]):
            if isinstance(item, PastRun):
                self._past(item)
            else:
                self.add_job(item, gpus_needed(item, boards))
        for run in snapshot.history:
            self._limit_used(run.user, run.ran_seconds, run)
        for held in snapshot.running:
            ran = held.job.attained_seconds + max(0, snapshot.now - held.started_at)
            self.update_attained(held.job.id, ran, snapshot.now)
        return self

    def add_job(self, job: WaitingJob, gpus: float) -> None:
        """A job joins the queue, with what it has attained before. Told twice, nothing changes."""
        if job.id in self._live:
            return
        size = size_class(gpus)
        slot = self._add(job.user, normalised_name(job.group), size)
        self._live[job.id] = _Known(job, slot, size)
        self._changed(slot)
        if job.attained_seconds:
            self.update_attained(job.id, job.attained_seconds)

    def update_attained(self, job_id: str, seconds: float, at: float | None = None) -> None:
        """It has run usefully for so long, over all attempts. `at`: it runs on from that time;
        None: it stands still. KeyError where it was never submitted, or has ended."""
        known = self._live[job_id]
        known.attained, known.since = seconds, at
        self._leave_bins(known.slot, known.size, seconds)

    def complete(self, job_id: str, ran_seconds: float) -> None:
        """It ended by itself after so much useful running time. KeyError as in `attained`."""
        self._ended(job_id, ran_seconds, hz.DONE)

    def cut_off(self, job_id: str, ran_seconds: float) -> None:
        """Its limit, a cancel or a fault ended it, or it left the queue. KeyError as above."""
        self._ended(job_id, ran_seconds, hz.CUT)

    def work(self, job: WaitingJob, gpus: float, now: float) -> float:
        """The sort key in GPU-seconds, least first: GPUs / Gittins index at the job's age.

        Where its limit is believable: GPUs x (limit - age) x the usual share of the user's limits.
        Running jobs age with `now`; a job that was not submitted counts as the next one to be."""
        age = self.age(job, now)
        if self.believes_limit(job):
            left = max(1.0, job.time_limit_seconds - age)
            return gpus * left * self.ratios.mean_ratio(job.user)
        return gpus / self._answer(job, size_class(gpus), age)[0]

    def mean_seconds(self, job: WaitingJob, gpus: float, now: float) -> float:
        """The mean running time that remains, at most to its limit."""
        age = self.age(job, now)
        left = max(1.0, job.time_limit_seconds - age)
        if self.believes_limit(job):
            return left * self.ratios.mean_ratio(job.user)
        return min(left, self._answer(job, size_class(gpus), age)[1])

    def remaining(self, job: WaitingJob, gpus: float, now: float, quantile: float) -> float:
        """A quantile of the running time that remains, at most to its limit."""
        age = self.age(job, now)
        left = max(1.0, job.time_limit_seconds - age)
        if self.believes_limit(job):
            found = remaining_seconds(
                self.ratios.values()[:, 1], job.time_limit_seconds, age, quantile
            )
            return left if found is None else min(left, found)
        return min(left, hz.remaining(self.hazard_curve(job, gpus), age, quantile))

    def believes_limit(self, job: WaitingJob) -> bool:
        """Whether its time limit says something of its run time."""
        return job.limit_is_chosen and self.ratios.is_believable(job.user)

    def age(self, job: WaitingJob, now: float) -> float:
        """Its useful running time by now: as told here, or as the job says where that is more."""
        known = self._live.get(job.id)
        said = float(job.attained_seconds)
        return said if known is None else max(said, known.age(now))

    def hazard_curve(self, job: WaitingJob, gpus: float) -> hz.Floats:
        """The job's own hazard by bin, all three layers. Shape (BINS,)."""
        known = self._live.get(job.id)
        if known is not None:
            return self._slot_curve(known.slot)
        size, group = size_class(gpus), normalised_name(job.group)
        slot = self._add(job.user, group, size)
        curve = self._slot_curve(slot)
        self._records.remove_last(job.user, group, size)
        return curve

    def _slot_curve(self, slot: int) -> hz.Floats:
        self._refresh(np.array([slot]))
        rec, curve = self._records, np.empty(hz.BINS)
        towards = self._size_curves()[rec.rows[slot]]
        hz.group_curve(rec.sums[slot], towards, self._shrinkage.group, curve)
        return curve

    def _add(self, user: str, group: str, size: int) -> int:
        return self._records.add(user, group, size, self._row(size))

    def _past(self, run: PastRun) -> None:
        size = size_class(run.gpus)
        slot = self._add(run.user, normalised_name(run.group), size)
        state = hz.DONE if run.completed else hz.CUT
        self._end(slot, size, run.ran_seconds, state)

    def _ended(self, job_id: str, ran_seconds: float, state: int) -> None:
        known = self._live.pop(job_id)
        self._end(known.slot, known.size, ran_seconds, state)
        job = known.job
        self._learn_limit(
            job.user, ran_seconds, job.time_limit_seconds, job.limit_is_chosen, state == hz.DONE
        )

    def _end(self, slot: int, size: int, ran_seconds: float, state: int) -> None:
        self._leave_bins(slot, size, ran_seconds)
        self._records.states[slot] = state
        self.runs += 1
        if state == hz.DONE:
            own = int(self._records.bins[slot])
            self._all.ended[own] += 1
            self._layers[self._row(size)].ended[own] += 1
        self._changed(slot)

    def _limit_used(self, user: str, ran_seconds: float, run: PastRun) -> None:
        self._learn_limit(user, ran_seconds, run.limit_seconds, run.limit_is_chosen, run.completed)

    def _learn_limit(
        self, user: str, ran: float, limit: float, chosen: bool, completed: bool
    ) -> None:
        if chosen and (completed or ran >= limit):
            self.ratios.add(user, ran, limit)

    def _leave_bins(self, slot: int, size: int, seconds: float) -> None:
        """Count it as a survivor of the bins before the one it is in now. Ages never shrink here:
        what was survived stays survived."""
        old, new = int(self._records.bins[slot]), hz.bin_of(seconds)
        if new <= old:
            return
        self._all.survived[old:new] += 1
        self._layers[self._row(size)].survived[old:new] += 1
        self._records.bins[slot] = new
        self._changed(slot)

    def _changed(self, slot: int) -> None:
        """Every hazard moves a little; the sums of its neighbours must be taken anew."""
        self._curves, self._answered = None, False
        if self._summed:  # before the first question every slot is stale anyway
            self._records.stale[self._records.neighbours(slot, self._likeness.reach)] = True

    def _row(self, size: int) -> int:
        """The number of a GPU count among the layers; a new one gets a new layer."""
        row = self._rows.setdefault(size, len(self._rows))
        if row == len(self._layers):
            self._layers.append(_Layer())
            self._curves = None
        return row

    def _size_curves(self) -> hz.Floats:
        """The second layer. Shape (GPU counts, BINS)."""
        if self._curves is None:
            pull = self._shrinkage
            everyone = hz.hazard(self._all.ended, self._all.survived, hz.PRIOR, pull.all)
            self._curves = np.array(
                [hz.hazard(of.ended, of.survived, everyone, pull.size) for of in self._layers]
            )
        return self._curves

    def _refresh(self, slots: hz.Ints) -> None:
        """Take the sums of the neighbours anew where they changed."""
        rec = self._records
        stale = slots[rec.stale[slots]]
        if len(stale):
            spread = (hz.ENDS, hz.AT_RISK)
            hz.group_sums(
                stale, rec.links, rec.names, rec.sizes, rec.bins, rec.states,
                self._weights, spread, rec.sums,
            )  # fmt: skip
            rec.stale[stale] = False
            self._summed = True

    def _answer(self, job: WaitingJob, size: int, age: float) -> tuple[float, float]:
        """(Gittins index, mean remaining seconds). The first question after a change answers for
        all jobs at once; a job that has entered another bin since is asked anew."""
        known, own = self._live.get(job.id), hz.bin_of(age)
        if known is None or own != self._records.bins[known.slot]:
            index, mean = hz.gittins(self.hazard_curve(job, size), own, hz.WIDTHS)
            return float(index), float(mean)
        if not self._answered:
            self._answer_all()
        index, mean = self._records.answers[known.slot].tolist()
        return index, mean

    def _answer_all(self) -> None:
        """For every live job, at the age that it was last told with."""
        rec = self._records
        slots = np.fromiter((k.slot for k in self._live.values()), np.int64, len(self._live))
        self._refresh(slots)
        towards = self._size_curves()[rec.rows[slots]]
        hz.gittins_all(
            slots, rec.bins, rec.sums, towards, self._shrinkage.group, hz.WIDTHS, rec.answers
        )
        self._answered = True


def gpus_needed(job: WaitingJob, boards: Iterable[Board]) -> float:
    """GPUs that a job needs in all; of slices and shares the part of a GPU by their units, in the
    cheapest way to serve it on these boards (0 where none serves it)."""
    if job.device.gpus:
        return float(job.device.gpus * job.replicas)
    ways = device_options(job.device, boards)
    return job.replicas * ways[0].replica_units / UNITS_PER_GPU if ways else 0.0
