"""When a project counts its jobs as idle, and the jobs that are."""

from django.db import models

from portal.accounts.models import Project
from portal.jobs.models import Job

DEFAULT_THRESHOLD_PERCENT = 5


class IdlePolicy(models.Model):
    """Of a project that has one; a project without a row warns nobody and stops nothing."""

    project = models.OneToOneField(
        Project, on_delete=models.CASCADE, primary_key=True, related_name="idle_policy"
    )
    threshold_percent = models.PositiveSmallIntegerField(default=DEFAULT_THRESHOLD_PERCENT)
    """A device whose activity stays below it is idle."""
    warn_minutes = models.PositiveSmallIntegerField()
    stop_minutes = models.PositiveSmallIntegerField(null=True, blank=True)
    """Null: jobs are only warned."""

    def __str__(self) -> str:
        return f"idle policy of {self.project}"


class IdleSpell(models.Model):
    """The time in which a job was idle: while it lasts, or as the end of the job."""

    job = models.OneToOneField(
        Job, on_delete=models.CASCADE, primary_key=True, related_name="idle_spell"
    )
    since = models.DateTimeField()
    warned_at = models.DateTimeField()
    peak_percent = models.PositiveSmallIntegerField()
    """The highest activity of any of its devices since then."""
    stops_at = models.DateTimeField(null=True, blank=True)
    """When it is stopped if nothing changes; null if it is not."""
    stopped_at = models.DateTimeField(null=True, blank=True)
    reclaimed_unit_seconds = models.PositiveBigIntegerField(null=True, blank=True)
    """What it held, times what was left of its time limit when it was stopped."""

    class Meta:
        indexes = [
            models.Index(
                fields=("stopped_at",),
                condition=models.Q(stopped_at__isnull=False),
                name="idle_stopped",
            )
        ]

    def __str__(self) -> str:
        return f"{self.job} idle since {self.since:%Y-%m-%d %H:%M}"
