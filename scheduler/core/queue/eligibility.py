"""Whose turn has not come at all: held jobs, jobs with a begin time, jobs that wait for others."""

from scheduler.core.model.message import make_message
from scheduler.core.model.reasons import Reason, ReasonCode
from scheduler.core.model.snapshot import WaitingJob


def not_due(job: WaitingJob, now: int) -> Reason | None:
    """Why the job is not looked at yet, or None. It takes no place and no reservation meanwhile.

    `job.after` names only jobs that have not ended: who loads the snapshot leaves the others out.
    """
    if job.hold_reason:
        said = make_message("held", because=job.hold_reason)
        return Reason(ReasonCode.HELD, said, {}, make_message("unblocks.released"))
    if job.begin_at > now:
        evidence = {"begin_at": job.begin_at}
        helps = make_message("unblocks.begin_time")
        return Reason(ReasonCode.BEGIN_TIME, make_message("begin_time"), evidence, helps)
    if job.after:
        said = make_message("dependency", jobs=[f"J-{other}" for other in job.after])
        evidence_after = {"after": list(job.after)}
        return Reason(
            ReasonCode.DEPENDENCY, said, evidence_after, make_message("unblocks.those_end")
        )
    return None
