"""What people and programs may reach of apps: visits of browsers, guests, and tokens."""

from django.conf import settings
from django.db import models

from portal.accounts.models import Project
from portal.apps.hosts import AppName
from portal.job_services.models import JobService
from portal.jobs.models import Job


class AppVisit(models.Model):
    """One browser session of a user at one app of one job, or at one service.

    It begins with a ticket, which an address carries once, and goes on with a cookie of the app's
    host. Only the digests of both are stored.
    """

    job = models.ForeignKey(
        Job, null=True, blank=True, on_delete=models.CASCADE, related_name="app_visits"
    )
    service = models.ForeignKey(
        JobService, null=True, blank=True, on_delete=models.CASCADE, related_name="app_visits"
    )
    """One of these two."""
    app = models.CharField(max_length=20)
    """Of a service, its name."""
    user = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="app_visits"
    )
    session_key = models.CharField(max_length=40, editable=False)
    """Of the session of the portal that opened it: the visit ends with it."""
    ticket_digest = models.CharField(max_length=64, unique=True, editable=False)
    ticket_expires_at = models.DateTimeField(editable=False)
    origin = models.CharField(max_length=300, default="", db_default="", editable=False)
    """Of the portal, as the browser called it: only its page hands the ticket in."""
    cookie_digest = models.CharField(  # noqa: DJ001 - many have none, and it is unique
        max_length=64, unique=True, null=True, editable=False
    )
    """Null until the ticket was used."""
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ("id",)

    def __str__(self) -> str:
        return f"{self.user} at {self.name.label}"

    @property
    def name(self) -> AppName:
        return AppName(self.job_id or 0, self.app, self.service_id or 0)


class AppGuest(models.Model):
    """A person to whom the owner of a job has opened one of its apps."""

    job = models.ForeignKey(Job, on_delete=models.CASCADE, related_name="app_guests")
    app = models.CharField(max_length=20)
    user = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="app_guests"
    )
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ("id",)
        constraints = [
            models.UniqueConstraint(fields=["job", "app", "user"], name="app_guest_once")
        ]

    def __str__(self) -> str:
        return f"{self.user} at {self.app} of J-{self.job_id}"


class AppToken(models.Model):
    """A token with which a program calls apps as a user: one app of one job, or all apps of a
    project that the user may open. It is shown once; only its digest is stored."""

    user = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="app_tokens"
    )
    name = models.CharField(max_length=64)
    key = models.CharField(max_length=16, unique=True, editable=False)
    """Its first characters: enough to tell tokens apart, too few to guess one."""
    digest = models.CharField(max_length=64, unique=True, editable=False)
    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="app_tokens")
    job = models.ForeignKey(
        Job, null=True, blank=True, on_delete=models.CASCADE, related_name="app_tokens"
    )
    """Null: it opens apps of all jobs of the project."""
    app = models.CharField(max_length=20, blank=True)
    created_at = models.DateTimeField(auto_now_add=True)
    expires_at = models.DateTimeField()
    # What was called with it, as of some seconds ago: portal/apps/token_usage.py.
    last_used_at = models.DateTimeField(null=True, blank=True)
    requests = models.BigIntegerField(default=0, db_default=0)
    bytes_in = models.BigIntegerField(default=0, db_default=0)
    bytes_out = models.BigIntegerField(default=0, db_default=0)

    class Meta:
        ordering = ("-id",)

    def __str__(self) -> str:
        return self.name

    def covers(self, job: Job, app: str) -> bool:
        """Whether it is for this app. Whether its user may open that is another question."""
        if self.job_id is None:
            return job.project_id == self.project_id
        return (job.pk, app) == (self.job_id, self.app)

    def covers_service(self, service: JobService) -> bool:
        """The same of a service: tokens for all apps of its project are for it."""
        return self.job_id is None and service.project_id == self.project_id
