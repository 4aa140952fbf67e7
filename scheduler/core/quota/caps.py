"""Job caps: how many jobs of one owner may run at once."""

from collections import Counter
from collections.abc import Callable, Iterable

from scheduler.core.model.message_templates import make_message, owner_label
from scheduler.core.model.reasons import Reason, ReasonCode
from scheduler.core.model.snapshot import OwnerView, RunningJob, WaitingJob

Owner = tuple[str, str]


class JobCaps:
    """Owners with a cap, and their running jobs. A stopping job counts until it is gone."""

    def __init__(self, owners: Iterable[OwnerView], running: Iterable[RunningJob]) -> None:
        self._caps = {(o.project, o.user): o.max_running for o in owners if o.max_running > 0}
        self._running: Counter[Owner] = Counter()
        for each in running if self._caps else ():
            self._running[each.job.project, ""] += 1
            self._running[each.job.project, each.job.user] += 1

    def cap_reason(self, job: WaitingJob) -> Reason | None:
        for key in ((job.project, ""), (job.project, job.user)) if self._caps else ():
            cap, running_jobs = self._caps.get(key), self._running[key]
            if cap is not None and running_jobs >= cap:
                message = make_message(
                    "pending_limit.running", whose=owner_label(*key), most=cap, runs=running_jobs
                )
                evidence = {"max_running": cap, "running": running_jobs}
                return Reason(
                    ReasonCode.PENDING_LIMIT, message, evidence, make_message("unblocks.cap")
                )
        return None

    def charge(self, project: str, user: str, jobs: int) -> Callable[[], None]:
        """Count `jobs` more, or fewer if negative. Returns the undo."""
        self._add(project, user, jobs)
        return lambda: self._add(project, user, -jobs)

    def _add(self, project: str, user: str, jobs: int) -> None:
        self._running[project, ""] += jobs
        self._running[project, user] += jobs
