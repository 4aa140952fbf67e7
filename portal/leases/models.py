"""Leases on work that at most one worker may do at a time, such as planning."""

from django.db import models


class TaskLease(models.Model):
    """The lease on one kind of work. Its holder has a random token and renews it while it works."""

    name = models.CharField(max_length=32, primary_key=True)
    token = models.CharField(max_length=36, blank=True, default="")
    expires_at = models.DateTimeField(null=True, blank=True)
    # Set by a worker that wanted the lease: the holder, or the next one, does one more round.
    rung = models.BooleanField(default=False)
    # When a round was last completed.
    stamped_at = models.DateTimeField(null=True, blank=True)

    # Where the next round continues, if the last one ran out of time: JSON, as the work wrote it.
    continuation = models.JSONField(null=True, blank=True)

    class Meta:
        # The model was once called Duty.
        db_table = "duties_duty"

    def __str__(self) -> str:
        return self.name
