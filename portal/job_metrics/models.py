"""Series of values that jobs report, and up to where the file of each replica has arrived."""

from django.db import models

from portal.database.locks import LockingQuerySet
from portal.jobs.models import Job, Replica


class MetricSeries(models.Model):
    """The values of one name that one rank of a job has reported, over all of its attempts.

    `low`, `high` and `count` are of all points; `points` are few of them.
    """

    id = models.BigAutoField(primary_key=True)
    job = models.ForeignKey(Job, on_delete=models.CASCADE, related_name="metrics")
    rank = models.PositiveSmallIntegerField()
    name = models.CharField(max_length=64)
    attempt = models.PositiveIntegerField()
    """The number of the attempt that reported last."""
    part = models.PositiveIntegerField()
    """How often that attempt's file began anew."""
    count = models.PositiveBigIntegerField()
    last = models.FloatField()
    last_step = models.PositiveBigIntegerField()
    low = models.FloatField()
    high = models.FloatField()
    points = models.JSONField(default=list)
    """[step, value] by step, at least `spacing` steps apart."""
    spacing = models.PositiveBigIntegerField(default=1)
    updated_at = models.DateTimeField()

    objects = LockingQuerySet.as_manager()

    class Meta:
        ordering = ("job", "name", "rank")
        constraints = [
            models.UniqueConstraint(fields=("job", "rank", "name"), name="metric_series_once")
        ]
        # Lists of jobs are filtered by a metric's last value.
        indexes = [models.Index(fields=("name", "last"), name="metric_last")]

    def __str__(self) -> str:
        return f"{self.name} of rank {self.rank} of {self.job}"


class MetricsPosition(models.Model):
    """Up to where the metrics file of a replica and the metrics in its log have arrived, as
    `agents.contract.job_metrics` names it; and how many lines were no points, by reason."""

    replica = models.OneToOneField(
        Replica, on_delete=models.CASCADE, primary_key=True, related_name="metrics_position"
    )
    part = models.PositiveIntegerField(default=0)
    offset = models.PositiveBigIntegerField(default=0)
    mark = models.PositiveBigIntegerField(default=0)
    log_offset = models.PositiveBigIntegerField(default=0, db_default=0)
    skipped = models.JSONField(default=dict)
    updated_at = models.DateTimeField(null=True)

    objects = LockingQuerySet.as_manager()

    def __str__(self) -> str:
        return f"metrics file of {self.replica}, at {self.offset}"
