"""How much work a job still is, learned from earlier runs and updated as jobs run.

Time in seconds. It has no clock: callers say what happened, and when.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np

from agents.contract.boards import Board
from agents.contract.units import UNITS_PER_GPU
from scheduler.core.devices.options import device_options, node_boards
from scheduler.core.forecast import hazard as hz
from scheduler.core.forecast.job_table import JobTable
from scheduler.core.forecast.ratios import LimitRatios, remaining_seconds
from scheduler.core.forecast.similarity import Similarity, normalised_name, size_class
from scheduler.core.model.snapshot import ClusterSnapshot, PastRun, WaitingJob


@dataclass
class _LiveJob:
    """A job that has not ended. It runs on from `attained` since `since`; None: it does not run."""

    job: WaitingJob
    slot: int
    size: int
    attained: float = 0.0
    since: float | None = None

    def age(self, now: float) -> float:
        return self.attained + (max(0.0, now - self.since) if self.since is not None else 0.0)


@dataclass
class _Layer:
    """Jobs by bin: those that ended in it, and those that survived it. Shape (BINS,)."""

    ended: hz.Floats = field(default_factory=lambda: np.zeros(hz.BINS))
    survived: hz.Floats = field(default_factory=lambda: np.zeros(hz.BINS))


class RuntimeModel:
    """Hazards in three layers (all jobs, one GPU count, the job's group), each shrunk towards the
    one before, and the users' ratios of run time to limit. See docs/research/start-estimates.md."""

    def __init__(
        self, similarity: Similarity | None = None, shrinkage: hz.Shrinkage | None = None
    ) -> None:
        self.ratios = LimitRatios()
        self.runs = 0
        """How many ended runs it has learned from."""
        self._similarity = similarity or Similarity()
        self._shrinkage = shrinkage or hz.Shrinkage()
        self._weights = self._similarity.weights()
        self._table = JobTable()
        self._live: dict[str, _LiveJob] = {}
        self._all = _Layer()
        self._rows: dict[int, int] = {}
        self._layers: list[_Layer] = []
        self._curves: hz.Floats | None = None
        self._answered = self._summed = False

    @classmethod
    def from_snapshot(
        cls, snapshot: ClusterSnapshot, similarity: Similarity | None = None
    ) -> "RuntimeModel":
        """From the past, waiting and running jobs of a snapshot, in order of submission. A past
        run without a submission time counts as if it had started at once."""
        self = cls(similarity)
        boards = node_boards(snapshot.nodes)
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
        """A job joins the queue, with what it has attained before. Idempotent."""
        if job.id in self._live:
            return
        size = size_class(gpus)
        slot = self._add(job.user, normalised_name(job.group), size)
        self._live[job.id] = _LiveJob(job, slot, size)
        self._changed(slot)
        if job.attained_seconds:
            self.update_attained(job.id, job.attained_seconds)

    def update_attained(self, job_id: str, seconds: float, at: float | None = None) -> None:
        """It has run usefully for `seconds`, over all attempts. `at`: it runs on from that time;
        None: it does not run. KeyError if it was never added, or has ended."""
        known = self._live[job_id]
        known.attained, known.since = seconds, at
        self._leave_bins(known.slot, known.size, seconds)

    def complete(self, job_id: str, ran_seconds: float) -> None:
        """It ended by itself after `ran_seconds` in all. KeyError as in `update_attained`."""
        self._ended(job_id, ran_seconds, hz.DONE)

    def cut_off(self, job_id: str, ran_seconds: float) -> None:
        """Its limit, a cancel or a fault ended it, or it left the queue. KeyError as above."""
        self._ended(job_id, ran_seconds, hz.CUT)

    def work(self, job: WaitingJob, gpus: float, now: float) -> float:
        """The sort key in GPU-seconds, smallest first: GPUs / Gittins index at the job's age.

        If its limit is believable: GPUs x (limit - age) x the user's mean ratio. Running jobs age
        with `now`; an unknown job counts as the next one to be added."""
        age = self.age(job, now)
        if self.believes_limit(job):
            left = max(1.0, job.time_limit_seconds - age)
            return gpus * left * self.ratios.mean_ratio(job.user)
        return gpus / self._answer(job, size_class(gpus), age)[0]

    def mean_seconds(self, job: WaitingJob, gpus: float, now: float) -> float:
        """Mean remaining running time, at most to its limit."""
        age = self.age(job, now)
        left = max(1.0, job.time_limit_seconds - age)
        if self.believes_limit(job):
            return left * self.ratios.mean_ratio(job.user)
        return min(left, self._answer(job, size_class(gpus), age)[1])

    def remaining(self, job: WaitingJob, gpus: float, now: float, quantile: float) -> float:
        """A quantile of the remaining running time, at most to its limit."""
        age = self.age(job, now)
        left = max(1.0, job.time_limit_seconds - age)
        if self.believes_limit(job):
            found = remaining_seconds(
                self.ratios.values()[:, 1], job.time_limit_seconds, age, quantile
            )
            return left if found is None else min(left, found)
        return min(left, hz.remaining(self.hazard_curve(job, gpus), age, quantile))

    def believes_limit(self, job: WaitingJob) -> bool:
        """Whether its time limit says something about its run time."""
        return job.limit_is_chosen and self.ratios.is_believable(job.user)

    def age(self, job: WaitingJob, now: float) -> float:
        """Its useful running time by now: as recorded here or in the job, whichever is more."""
        known = self._live.get(job.id)
        attained = float(job.attained_seconds)
        return attained if known is None else max(attained, known.age(now))

    def hazard_curve(self, job: WaitingJob, gpus: float) -> hz.Floats:
        """The job's own hazard by bin, all three layers. Shape (BINS,)."""
        known = self._live.get(job.id)
        if known is not None:
            return self._slot_curve(known.slot)
        size, group = size_class(gpus), normalised_name(job.group)
        slot = self._add(job.user, group, size)
        curve = self._slot_curve(slot)
        self._table.remove_last(job.user, group, size)
        return curve

    def _slot_curve(self, slot: int) -> hz.Floats:
        self._refresh(np.array([slot]))
        rec, curve = self._table, np.empty(hz.BINS)
        towards = self._size_curves()[rec.rows[slot]]
        hz.group_curve(rec.sums[slot], towards, self._shrinkage.group, curve)
        return curve

    def _add(self, user: str, group: str, size: int) -> int:
        return self._table.add(user, group, size, self._row(size))

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
        self._table.states[slot] = state
        self.runs += 1
        if state == hz.DONE:
            own = int(self._table.bins[slot])
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
        """Count it as a survivor of the bins before its present one. Ages never shrink: a survived
        bin stays survived."""
        old, new = int(self._table.bins[slot]), hz.bin_of(seconds)
        if new <= old:
            return
        self._all.survived[old:new] += 1
        self._layers[self._row(size)].survived[old:new] += 1
        self._table.bins[slot] = new
        self._changed(slot)

    def _changed(self, slot: int) -> None:
        """Every hazard moves a little; the sums of its neighbours are out of date."""
        self._curves, self._answered = None, False
        if self._summed:  # before the first query every slot is stale anyway
            self._table.stale[self._table.neighbours(slot, self._similarity.reach)] = True

    def _row(self, size: int) -> int:
        """The row of a GPU count among the layers; a new count gets a new layer."""
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
        """Compute the sums of the neighbours again where they changed."""
        rec = self._table
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
        """(Gittins index, mean remaining seconds). The first query after a change computes them for
        all jobs at once; a job that has entered another bin since is computed again."""
        known, own = self._live.get(job.id), hz.bin_of(age)
        if known is None or own != self._table.bins[known.slot]:
            index, mean = hz.gittins(self.hazard_curve(job, size), own, hz.WIDTHS)
            return float(index), float(mean)
        if not self._answered:
            self._compute_answers()
        index, mean = self._table.answers[known.slot].tolist()
        return index, mean

    def _compute_answers(self) -> None:
        """For every live job, at its last recorded age."""
        rec = self._table
        slots = np.fromiter((k.slot for k in self._live.values()), np.int64, len(self._live))
        self._refresh(slots)
        towards = self._size_curves()[rec.rows[slots]]
        hz.gittins_all(
            slots, rec.bins, rec.sums, towards, self._shrinkage.group, hz.WIDTHS, rec.answers
        )
        self._answered = True


def gpus_needed(job: WaitingJob, boards: Iterable[Board]) -> float:
    """GPUs that a job needs, all replicas together. Slices and shares count by their units; of the
    cheapest option on these boards (0 if there is none)."""
    if job.device.gpus:
        return float(job.device.gpus * job.replicas)
    ways = device_options(job.device, boards)
    return job.replicas * ways[0].replica_units / UNITS_PER_GPU if ways else 0.0
