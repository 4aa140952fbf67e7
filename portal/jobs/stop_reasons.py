"""Why attempts end."""

from enum import StrEnum


class StopReason(StrEnum):
    """Why an attempt ended: `Job.stop_reason` while it stops, `Attempt.outcome` afterwards."""

    SUCCEEDED = "succeeded"
    CANCELLED = "cancelled"
    TIMED_OUT = "timed_out"
    FAILED = "failed"
    # Its node was given up.
    LOST = "lost"
    # Other work went first; the job is queued again.
    PREEMPTED = "preempted"
    # It starts again with more replicas: devices are free, and nobody waits for them.
    RESIZED = "resized"
    # An admin emptied its node. Costs an infrastructure retry, as a lost node does.
    DRAINED = "drained"
    # Its GPUs did nothing for as long as its project allows.
    IDLE = "idle"
    # An admin did not approve the job.
    REFUSED = "refused"
    # A job that had to succeed first did not.
    DEPENDENCY = "dependency"
