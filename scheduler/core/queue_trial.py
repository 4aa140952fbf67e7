"""What a pass would say of a job that is not in the queue yet, without a look at the whole queue.

    standing = Standing(snapshot, policy, outlook)     # one pass over the queue
    standing.asked(job).place                          # as the next pass would decide; or .reason

The job comes right after the pass: whom that starts holds its places. Of those who still wait, only
they matter to a newcomer to whom the pass gave something: a promised time, room that running work
leaves, quota that is kept. So a newcomer's pass has these and the newcomer alone, and says the same
of it as one over all (`tests/property/core/test_queue_trial.py`).
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from scheduler.core.model.decisions import JobPlacement
from scheduler.core.model.policy import Policy
from scheduler.core.model.reasons import Reason
from scheduler.core.model.snapshot import ClusterSnapshot, WaitingJob
from scheduler.core.pass_cache import PassCache
from scheduler.core.placement.search import GangPlacement
from scheduler.core.plan import Pass
from scheduler.core.queue.order import WorkEstimator
from scheduler.core.queue.reservation import reserve_placement


@dataclass(frozen=True, slots=True)
class TrialResult:
    """`place`: it starts at once; else `reason`, and where it is promised a time, `starts_at`.
    `could_start`: whether it would if it asked for what the given job with its id asks for; good
    until somebody else is asked about."""

    place: JobPlacement | None
    reason: Reason | None
    starts_at: int | None
    can_start: Callable[[WaitingJob], bool]


class QueueTrial:
    """The queue as one pass left it; `plan` is that pass. One question at a time."""

    def __init__(self, snapshot: ClusterSnapshot, policy: Policy, outlook: WorkEstimator) -> None:
        self._policy, self._outlook, self._kept = policy, outlook, PassCache()
        first = Pass(snapshot, policy, outlook, self._kept)
        self.plan = first.run()
        jobs = {job.id: job for job in snapshot.jobs}
        places = {place.job: place for place in self.plan.placements}
        self._placed = [
            (jobs[id], GangPlacement(list(place.replicas))) for id, place in places.items()
        ]
        self._ahead = tuple(jobs[id] for id in _given(first) if id not in places)
        self._asking = {(job.project, job.user) for job in snapshot.jobs if job.id not in places}
        self._snapshot = snapshot

    def try_job(self, job: WaitingJob) -> TrialResult:
        """What the next pass would say of it, if it joined the queue now."""
        done = self._pass([job])
        place = next((place for place in done.places if place.job == job.id), None)
        reason = next((hold.reason for hold in done.holds if hold.job == job.id), None)
        promised = {each.job: each.starts_at for each in done.promises.decisions()}
        return TrialResult(place, reason, promised.get(job.id), done.can_start)

    def can_start(self, jobs: Iterable[WaitingJob]) -> list[bool]:
        """Whether each of them would start at once if it came alone, and last in its turn."""
        done = self._pass([])
        return [done.can_start(job) for job in jobs]

    def _pass(self, jobs: list[WaitingJob]) -> Pass:
        snapshot = replace(self._snapshot, jobs=(*self._ahead, *jobs))
        asking = self._asking | {(job.project, job.user) for job in jobs}
        done = Pass(snapshot, self._policy, self._outlook, self._kept, asking)
        for job, found in self._placed:
            reserve_placement(done.ledger, job, found)
            done.started(job, found)
        done.walk()
        return done


def _given(done: Pass) -> Iterable[str]:
    """Who of the queue took something in this pass, in the order of the queue; and, where nobody
    passes the first one who is blocked, that one."""
    promised = {promise.job.id for promise in done.promises.entries}
    taken = done.occupants.keys() | promised | done.kept_quota.job_ids() | set(done.blocked[:1])
    return [job.id for job in done.snapshot.jobs if job.id in taken]
