"""Caps: how many jobs of one owner may run at once."""

from collections import Counter
from collections.abc import Callable, Iterable

from scheduler.core.model.message import make_message, owner_label
from scheduler.core.model.reasons import Reason, ReasonCode
from scheduler.core.model.snapshot import OwnerView, RunningJob, WaitingJob

Owner = tuple[str, str]


class JobCaps:
    """Owners with a cap, and how many jobs each has running. A job that gives its devices back
    counts until it is gone."""

    def __init__(self, owners: Iterable[OwnerView], running: Iterable[RunningJob]) -> None:
        self._most = {(o.project, o.user): o.max_running for o in owners if o.max_running > 0}
        self._runs: Counter[Owner] = Counter()
        for each in running if self._most else ():
            self._runs[each.job.project, ""] += 1
            self._runs[each.job.project, each.job.user] += 1

    def cap_reason(self, job: WaitingJob) -> Reason | None:
        for key in ((job.project, ""), (job.project, job.user)) if self._most else ():
            most, runs = self._most.get(key), self._runs[key]
            if most is not None and runs >= most:
                said = make_message(
                    "pending_limit.running", whose=owner_label(*key), most=most, runs=runs
                )
                evidence = {"max_running": most, "running": runs}
                return Reason(
                    ReasonCode.PENDING_LIMIT, said, evidence, make_message("unblocks.cap")
                )
        return None

    def charge(self, project: str, user: str, jobs: int) -> Callable[[], None]:
        """Count `jobs` more, or fewer; the way back."""
        self._add(project, user, jobs)
        return lambda: self._add(project, user, -jobs)

    def _add(self, project: str, user: str, jobs: int) -> None:
        self._runs[project, ""] += jobs
        self._runs[project, user] += jobs
