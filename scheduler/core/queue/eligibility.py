"""Whose turn has not come at all: held jobs, jobs with a begin time, jobs that wait for others."""

from scheduler.core.model.message import say
from scheduler.core.model.reasons import Reason, ReasonCode
from scheduler.core.model.snapshot import WaitingJob


def not_due(job: WaitingJob, now: int) -> Reason | None:
    """Why the job is not looked at yet, or None. It takes no place and no reservation meanwhile.

    `job.after` names only jobs that have not ended: who loads the snapshot leaves the others out.
    """
    if job.held_because:
        said = say("held", because=job.held_because)
        return Reason(ReasonCode.HELD, said, {}, say("unblocks.released"))
    if job.begin_at > now:
        evidence = {"begin_at": job.begin_at}
        helps = say("unblocks.begin_time")
        return Reason(ReasonCode.BEGIN_TIME, say("begin_time"), evidence, helps)
    if job.after:
        said = say("dependency", jobs=[f"J-{other}" for other in job.after])
        evidence_after = {"after": list(job.after)}
        return Reason(ReasonCode.DEPENDENCY, said, evidence_after, say("unblocks.those_end"))
    return None
