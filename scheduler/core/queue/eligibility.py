"""Jobs whose turn has not come: on hold, without a secret, before their begin time, or waiting for
other jobs."""

from scheduler.core.model.message_templates import dependency_label, make_message
from scheduler.core.model.reasons import Reason, ReasonCode
from scheduler.core.model.snapshot import WaitingJob


def not_due(job: WaitingJob, now: int) -> Reason | None:
    """Why the pass skips this job, or None. A skipped job gets no place and no reservation.

    `job.after` names only jobs that have not ended; the snapshot leaves the others out.
    """
    if job.hold_reason:
        message = make_message("held", because=job.hold_reason)
        return Reason(ReasonCode.HELD, message, {}, make_message("unblocks.released"))
    if job.missing_secret:
        name = job.missing_secret
        message = make_message("secret.deleted", name=name)
        unblocks = make_message("unblocks.secret", name=name)
        return Reason(ReasonCode.SECRET_MISSING, message, {"secret": name}, unblocks)
    if job.begin_at > now:
        evidence = {"begin_at": job.begin_at}
        unblocks = make_message("unblocks.begin_time")
        return Reason(ReasonCode.BEGIN_TIME, make_message("begin_time"), evidence, unblocks)
    if job.after:
        message = make_message("dependency", jobs=[dependency_label(other) for other in job.after])
        dependencies = {"after": list(job.after)}
        unblocks = make_message("unblocks.those_end")
        return Reason(ReasonCode.DEPENDENCY, message, dependencies, unblocks)
    return None
