"""Whose turn has not come at all: held jobs, jobs with a begin time, jobs that wait for others."""

from scheduler.core.reasons import Reason, ReasonCode
from scheduler.core.values import WaitingJob


def not_due(job: WaitingJob, now: int) -> Reason | None:
    """Why the job is not looked at yet, or None. It takes no place and no reservation meanwhile.

    `job.after` names only jobs that have not ended: who loads the snapshot leaves the others out.
    """
    if job.held_because:
        unblocks = "Whoever holds it, or an admin, releases it"
        return Reason(ReasonCode.HELD, f"It is held: {job.held_because}", {}, unblocks)
    if job.begin_at > now:
        evidence = {"begin_at": job.begin_at}
        sentence = "It asks to begin later"
        return Reason(ReasonCode.BEGIN_TIME, sentence, evidence, "It waits for its begin time")
    if job.after:
        others = ", ".join(f"J-{other}" for other in job.after)
        evidence_after = {"after": list(job.after)}
        return Reason(
            ReasonCode.DEPENDENCY, f"It starts after {others}", evidence_after, "Those end"
        )
    return None
