"""The cap of an array: how many of its members may run at once."""

from collections import Counter
from collections.abc import Iterable

from scheduler.core.model.message_templates import make_message
from scheduler.core.model.reasons import Reason, ReasonCode
from scheduler.core.model.snapshot import RunningJob, WaitingJob


class ArrayRoom:
    """The members with devices of each array with a cap. A stopping one counts until it is gone."""

    def __init__(self, running: Iterable[RunningJob]) -> None:
        self._running = Counter(each.job.array for each in running if each.job.array_cap)

    def cap_reason(self, job: WaitingJob) -> Reason | None:
        running = self._running[job.array] if job.array_cap else 0
        if not job.array_cap or running < job.array_cap:
            return None
        label = f"A-{job.array}"
        message = make_message("array_cap.full", array=label, most=job.array_cap)
        evidence = {"array": label, "max_running": job.array_cap, "running": running}
        return Reason(ReasonCode.ARRAY_CAP, message, evidence, make_message("unblocks.member_ends"))

    def enter(self, job: WaitingJob) -> None:
        """Count a member that gets devices, or a place that it will start at."""
        if job.array_cap:
            self._running[job.array] += 1
