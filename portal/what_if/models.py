"""A question of an admin, "what if", and its answer."""

from datetime import timedelta

from django.conf import settings
from django.db import models
from django.utils import timezone

# Nobody took it up, or who did has not said anything since.
LEASE = timedelta(minutes=10)


class WhatIfStatus(models.TextChoices):
    """asked -> running -> done or failed; until then it may be cancelled. Nothing else."""

    REQUESTED = "asked"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"


OPEN = (WhatIfStatus.REQUESTED, WhatIfStatus.RUNNING)
CUT_OFF = "It was cut off, or no worker took it up. Ask again"


class WhatIf(models.Model):
    """The jobs of the last `days` on a changed cluster. `changes` as
    scheduler.what_if.json_format reads them; `outcome` is a Comparison, once it is done.

    `progress` is in percent. `stamped_at`: when it was last heard of. It is a computation, not a
    thing of the cluster: its status has no history in the events.
    """

    id = models.BigAutoField(primary_key=True)
    asked_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="what_ifs"
    )
    days = models.PositiveSmallIntegerField()
    changes = models.JSONField(default=list)
    status = models.CharField(
        max_length=9, choices=WhatIfStatus.choices, default=WhatIfStatus.REQUESTED
    )
    progress = models.PositiveSmallIntegerField(default=0)
    sentence = models.CharField(max_length=400, blank=True, default="")
    outcome = models.JSONField(null=True, blank=True)
    created_at = models.DateTimeField(auto_now_add=True)
    stamped_at = models.DateTimeField(default=timezone.now)
    finished_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ("-id",)
        constraints = [
            models.CheckConstraint(
                condition=models.Q(status__in=WhatIfStatus.values), name="what_if_status"
            )
        ]

    def __str__(self) -> str:
        return f"what-if {self.pk} of {self.days} days"

    @property
    def is_cut_off(self) -> bool:
        """It is not over, and nobody works on it any more."""
        return self.status in OPEN and self.stamped_at < timezone.now() - LEASE

    @property
    def shown_status(self) -> str:
        """For people and programs: what was cut off has failed."""
        return str(WhatIfStatus.FAILED if self.is_cut_off else self.status)

    @property
    def shown_sentence(self) -> str:
        return CUT_OFF if self.is_cut_off else self.sentence
