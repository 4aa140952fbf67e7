"""Services as rows: what is kept running, its copies (ordinary jobs), and how busy they are."""

from datetime import datetime
from typing import Self

from django.conf import settings
from django.db import models
from django.db.models import Q

from portal.accounts.models import Membership, Project, User
from portal.database.locks import LockingQuerySet
from portal.jobs.models import Job


class JobServiceQuerySet(LockingQuerySet["JobService"]):
    def visible_to(self, user: User) -> Self:
        """The services of the user's projects; every service for a platform admin."""
        if user.is_platform_admin:
            return self
        return self.filter(project_id__in=Membership.objects.filter(user=user).values("project_id"))

    def live(self) -> Self:
        """Those that nobody has ended."""
        return self.filter(ended_at=None)

    def to_drive(self) -> Self:
        """Those that are kept running, or still have copies to stop."""
        busy = ServiceCopy.objects.open().values("service")
        return self.filter(Q(ended_at=None) | Q(pk__in=busy))


class JobService(models.Model):
    """A request of which between `min_copies` and `max_copies` jobs are kept running. People call
    it S-<number>."""

    id = models.BigAutoField(primary_key=True)
    project = models.ForeignKey(Project, on_delete=models.PROTECT, related_name="services")
    owner = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="services"
    )
    """Its copies are this user's jobs."""
    name = models.CharField(max_length=20)
    """Also the first part of its host."""
    request = models.JSONField()
    """The canonical request of the copies, without what the service adds to each."""
    generation = models.PositiveIntegerField(default=1)
    """Counts the changes of `request`. Copies of an earlier one are replaced."""
    port = models.PositiveIntegerField(default=0)
    """On which every copy listens; 0: each gets one of its own, as PORT in its environment."""
    health_path = models.CharField(max_length=200, default="/")
    min_copies = models.PositiveIntegerField(default=1)
    max_copies = models.PositiveIntegerField(default=1)
    calls_per_copy = models.PositiveIntegerField(default=8)
    """How many calls at once a copy is meant for."""
    cool_down_seconds = models.PositiveIntegerField(default=300)
    """For so long fewer copies must have been enough before there are fewer."""
    start_seconds = models.PositiveIntegerField(default=900)
    """A running copy that is not ready for so long is replaced."""
    copies = models.PositiveIntegerField(default=0)
    """How many there are to be now."""
    low_since = models.DateTimeField(null=True, blank=True)
    """Since when fewer have been enough."""
    low_copies = models.PositiveIntegerField(default=0)
    """The most that were needed since then."""
    failures = models.PositiveIntegerField(default=0)
    """Copies that ended by themselves, in a row."""
    all_failures = models.PositiveIntegerField(default=0, db_default=0)
    """Copies that ended by themselves or were not ready in time, ever."""
    canary = models.ForeignKey(
        "self", on_delete=models.SET_NULL, null=True, blank=True, related_name="canary_of"
    )
    """Another service of the same owner and project, which gets some of the calls."""
    canary_percent = models.PositiveIntegerField(default=0, db_default=0)
    """Of the new calls, while a copy of the canary is ready."""
    canary_failures = models.PositiveIntegerField(default=0, db_default=0)
    """Its `all_failures` when the percentage was set: after one more it gets no calls."""
    canary_problem = models.JSONField(null=True, blank=True)
    """The message that says why it gets none."""
    is_canary_promoted = models.BooleanField(default=False, db_default=False)
    """The request is the canary's by now; the canary ends once it is on all copies."""
    next_start_at = models.DateTimeField(null=True, blank=True)
    """No copy starts before this."""
    problem = models.JSONField(null=True, blank=True)
    """The message that says why there are fewer copies than there are to be."""
    version = models.PositiveIntegerField(default=1)
    created_at = models.DateTimeField(auto_now_add=True)
    ended_at = models.DateTimeField(null=True, blank=True)

    objects = JobServiceQuerySet.as_manager()

    class Meta:
        ordering = ("-id",)
        constraints = [
            models.CheckConstraint(
                condition=Q(min_copies__lte=models.F("max_copies")), name="service_copies_range"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.label} {self.name}"

    @property
    def label(self) -> str:
        return f"S-{self.pk}"

    def clear_canary(self) -> None:
        """All calls are its own from now on. Saves nothing."""
        self.canary, self.canary_percent, self.canary_problem = None, 0, None
        self.is_canary_promoted = False


class ServiceCopyQuerySet(LockingQuerySet["ServiceCopy"]):
    def open(self) -> Self:
        """Those whose job has not ended, as far as the service knows."""
        return self.filter(ended_at=None)

    def in_use(self) -> Self:
        """Those that are not about to be stopped."""
        return self.open().filter(leaves_at=None)

    def due_for_check(self, now: datetime) -> Self:
        """Whose health is to be looked at."""
        return self.in_use().filter(check_due_at__lte=now)


class ServiceCopy(models.Model):
    """One job of a service."""

    service = models.ForeignKey(JobService, on_delete=models.CASCADE, related_name="all_copies")
    job = models.OneToOneField(Job, on_delete=models.CASCADE, related_name="service_copy")
    generation = models.PositiveIntegerField()
    port = models.PositiveIntegerField()
    created_at = models.DateTimeField(auto_now_add=True)
    ready_attempt = models.BigIntegerField(default=0)
    """The attempt whose health path answers; 0: none. Calls go to no other attempt of the job."""
    ready_at = models.DateTimeField(null=True, blank=True)
    """Since when that has been so, the last time that it began."""
    unready_at = models.DateTimeField(null=True, blank=True)
    """When it last ceased to be so."""
    check_due_at = models.DateTimeField(auto_now_add=True)
    check_failures = models.PositiveIntegerField(default=0)
    """In a row."""
    leaves_at = models.DateTimeField(null=True, blank=True)
    """Since when it gets no new calls, because it is about to be stopped."""
    ended_at = models.DateTimeField(null=True, blank=True)

    objects = ServiceCopyQuerySet.as_manager()

    class Meta:
        ordering = ("id",)
        indexes = [
            # Few are; each web process reads them every 2 s.
            models.Index(
                fields=("check_due_at",), condition=Q(ended_at=None), name="service_copy_open"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.service.label} as {self.job.label}"


class ServiceLoad(models.Model):
    """What one web process has to do for a service, as of its last report."""

    service = models.ForeignKey(JobService, on_delete=models.CASCADE, related_name="loads")
    process = models.CharField(max_length=16)
    reported_at = models.DateTimeField()
    waiting = models.PositiveIntegerField(default=0)
    """Calls that are held until a copy is ready."""
    open_calls = models.JSONField(default=dict)
    """Calls in progress by the key of the job."""
    durations = models.JSONField(default=list)
    """Of the calls of the last minute: `portal.job_services.durations` has the bounds."""
    errors = models.PositiveIntegerField(default=0, db_default=0)
    """Calls of the last minute that a copy answered with a status of 500 to 599, or not at all."""

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=("service", "process"), name="service_load_once"),
        ]

    def __str__(self) -> str:
        return f"{self.service_id} in {self.process}"
