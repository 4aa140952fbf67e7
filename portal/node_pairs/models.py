"""Measurements of pairs of nodes: by jobs that admins started for that, and by gangs that had their
network checked before they started."""

from typing import Self

from django.db import models
from django.db.models import F, Q

from portal.choices import choices_from_enum, enum_check
from portal.inventory.models import Node
from portal.jobs.models import Attempt, Job
from portal.node_pairs.judgement import BAD_VERDICTS, ExpectationSource, PairVerdict


class PairMeasurementQuerySet(models.QuerySet["PairMeasurement"]):
    def unfinished(self) -> Self:
        """Their jobs have not ended, or what they wrote was not read yet."""
        return self.filter(verdict=PairVerdict.OPEN)

    def current(self) -> Self:
        """Of each pair the last one that measured it."""
        return self.filter(is_current=True)

    def bad(self) -> Self:
        """Those for which a pair is avoided now."""
        return self.current().filter(verdict__in=[str(verdict) for verdict in BAD_VERDICTS])

    def of_active_nodes(self) -> Self:
        return self.filter(
            first__in=Node.objects.active().values("pk"),
            second__in=Node.objects.active().values("pk"),
        )


class PairMeasurement(models.Model):
    """An all-reduce between two nodes: what one job is to measure, and what it measured.

    Bandwidths are bus bandwidths in MB/s (10^6 bytes).
    """

    first = models.ForeignKey(Node, on_delete=models.CASCADE, related_name="+")
    """The node with the lower name."""
    second = models.ForeignKey(Node, on_delete=models.CASCADE, related_name="+")
    job = models.OneToOneField(
        Job, null=True, blank=True, on_delete=models.CASCADE, related_name="pair_measurement"
    )
    """Of one that an admin started: the only job whose log is believed. A retry is another job."""
    attempt = models.ForeignKey(
        Attempt, null=True, blank=True, on_delete=models.CASCADE, related_name="pair_measurements"
    )
    """Else: the check that has found it, and may have measured several pairs."""
    actor = models.CharField(max_length=150)
    """Who started it, or the owner of the job that was checked."""
    created_at = models.DateTimeField(auto_now_add=True)
    expected_mb_per_second = models.PositiveIntegerField(default=0)
    """0 if unknown."""
    expected_source = models.CharField(
        max_length=16, blank=True, default="", choices=choices_from_enum(ExpectationSource)
    )
    verdict = models.CharField(
        max_length=16, choices=choices_from_enum(PairVerdict), default=PairVerdict.OPEN
    )
    is_current = models.BooleanField(default=False)
    """Of the measurements of its pair that came to a result, it is the last."""
    busbw_mb_per_second = models.PositiveIntegerField(default=0)
    message_bytes = models.PositiveBigIntegerField(default=0)
    """Of each message for which that was reached."""
    wrong_values = models.PositiveBigIntegerField(default=0)
    problem = models.JSONField(null=True, blank=True)
    """The message that says why there is no result."""
    finished_at = models.DateTimeField(null=True, blank=True)

    objects = PairMeasurementQuerySet.as_manager()

    class Meta:
        ordering = ("-id",)
        constraints = [
            enum_check("verdict", PairVerdict, "pair_measurement_verdict"),
            models.CheckConstraint(condition=~Q(first=F("second")), name="pair_of_two_nodes"),
            models.CheckConstraint(
                condition=Q(job__isnull=False, attempt__isnull=True)
                | Q(job__isnull=True, attempt__isnull=False),
                name="pair_of_one_job",
            ),
            models.UniqueConstraint(
                fields=("first", "second"), condition=Q(is_current=True), name="pair_current_once"
            ),
            models.UniqueConstraint(
                fields=("first", "second"), condition=Q(verdict="open"), name="pair_open_once"
            ),
        ]
        indexes = [
            # Few are; every pass with a gang reads those that are bad, every sweep the open ones.
            models.Index(
                fields=("verdict",), condition=Q(verdict="open"), name="pair_measurement_open"
            ),
            models.Index(
                fields=("verdict",), condition=Q(is_current=True), name="pair_measurement_current"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.first} and {self.second} by {self.measuring_job.label}"

    @property
    def measuring_job(self) -> Job:
        """Whose log has the table."""
        found = self.attempt.job if self.attempt else self.job
        if found is None:
            raise ValueError(f"measurement {self.pk} is of no job")
        return found

    @property
    def is_bad(self) -> bool:
        return self.is_current and self.verdict in BAD_VERDICTS
