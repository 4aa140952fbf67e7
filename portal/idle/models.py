"""When a project counts its jobs as idle, and the jobs that are."""

from datetime import datetime, timedelta

from django.db import models

from portal.accounts.models import Project
from portal.idle.progress import Progress, RankProgress
from portal.jobs.models import Job, Replica

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


class KernelActivity(models.Model):
    """When a kernel or a terminal of a running notebook last did something, as its node says."""

    replica = models.OneToOneField(
        Replica, on_delete=models.CASCADE, primary_key=True, related_name="kernel_activity"
    )
    active_at = models.DateTimeField()
    reported_at = models.DateTimeField()
    """Nothing is concluded from a report that is old: a kernel that is at work needs no new one."""

    def __str__(self) -> str:
        return f"kernels of {self.replica} active at {self.active_at:%Y-%m-%d %H:%M}"


class GangProgress(models.Model):
    """How far the ranks of a running gang have come, and whether they have stopped."""

    COLUMNS = ("attempt", "ranks", "longest_pause_seconds", "warned_at", "stops_at")

    job = models.OneToOneField(
        Job, on_delete=models.CASCADE, primary_key=True, related_name="gang_progress"
    )
    attempt = models.BigIntegerField()
    """The fence of the one that runs."""
    ranks = models.JSONField(default=dict)
    """By rank: its mark, and when that last changed, as `progress` has them."""
    longest_pause_seconds = models.PositiveIntegerField(default=0)
    warned_at = models.DateTimeField(null=True, blank=True)
    """Null while it makes progress."""
    stops_at = models.DateTimeField(null=True, blank=True)

    def __str__(self) -> str:
        return f"progress of {self.job}"

    @property
    def progress(self) -> Progress:
        ranks = {
            int(rank): RankProgress(mark, datetime.fromisoformat(at) if at else None)
            for rank, (mark, at) in self.ranks.items()
        }
        return Progress(ranks, timedelta(seconds=self.longest_pause_seconds))

    @progress.setter
    def progress(self, progress: Progress) -> None:
        self.ranks = {
            str(rank): [one.mark, one.moved_at.isoformat() if one.moved_at else ""]
            for rank, one in progress.ranks.items()
        }
        self.longest_pause_seconds = int(progress.longest_pause.total_seconds())
