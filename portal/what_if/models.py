"""What-ifs that platform admins requested, and their outcomes."""

from datetime import timedelta

from django.conf import settings
from django.db import models
from django.utils import timezone

from agents.contract.message import Message, read_message

# Without progress for this long, it counts as interrupted.
LEASE = timedelta(minutes=10)


class WhatIfStatus(models.TextChoices):
    """asked -> running -> done or failed; until then it can be cancelled."""

    REQUESTED = "asked", "Asked"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"


OPEN = (WhatIfStatus.REQUESTED, WhatIfStatus.RUNNING)
CUT_OFF = Message("It was interrupted, or no worker started it. Submit it again")


class WhatIf(models.Model):
    """A replay of the jobs of the last `days` on a changed cluster.

    It is a computation, not a part of the cluster, so its status has no history of events.
    """

    id = models.BigAutoField(primary_key=True)
    requester = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        on_delete=models.PROTECT,
        related_name="what_ifs",
        db_column="asked_by_id",
    )
    days = models.PositiveSmallIntegerField()
    # As scheduler.what_if.json_format reads them.
    changes = models.JSONField(default=list)
    status = models.CharField(
        max_length=9, choices=WhatIfStatus.choices, default=WhatIfStatus.REQUESTED
    )
    # Percent.
    progress = models.PositiveSmallIntegerField(default=0)
    sentence = models.CharField(max_length=400, blank=True, default="")
    message = models.JSONField(null=True, blank=True, editable=False)
    """That of `sentence`, for other languages."""
    # A Comparison, once it is done.
    outcome = models.JSONField(null=True, blank=True)
    created_at = models.DateTimeField(auto_now_add=True)
    # The last sign of progress.
    stamped_at = models.DateTimeField(default=timezone.now)
    finished_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ("-id",)
        constraints = [
            models.CheckConstraint(
                condition=models.Q(status__in=WhatIfStatus.values), name="what_if_status"
            ),
            # A replay takes a processor and much memory for minutes: one runs at a time.
            models.UniqueConstraint(
                fields=("status",),
                condition=models.Q(status=WhatIfStatus.RUNNING),
                name="what_if_one_runs",
            ),
        ]

    def __str__(self) -> str:
        return f"what-if {self.pk} of {self.days} days"

    @property
    def is_cut_off(self) -> bool:
        """It is not over, but no worker makes progress any more."""
        return self.status in OPEN and self.stamped_at < timezone.now() - LEASE

    @property
    def shown_status(self) -> str:
        """The status to show: an interrupted what-if has failed."""
        return str(WhatIfStatus.FAILED if self.is_cut_off else self.status)

    @property
    def shown_message(self) -> Message | None:
        """What it waits for, or why it failed."""
        return CUT_OFF if self.is_cut_off else read_message(self.message, self.sentence)

    @property
    def shown_sentence(self) -> str:
        """The message in English."""
        message = self.shown_message
        return message.text if message else ""
