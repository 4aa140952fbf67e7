"""Visits: what browsers may reach of apps."""

from django.conf import settings
from django.db import models

from portal.jobs.models import Job


class AppVisit(models.Model):
    """One browser session of a user at one app of one job.

    It begins with a ticket, which an address carries once, and goes on with a cookie of the app's
    host. Only the digests of both are stored.
    """

    job = models.ForeignKey(Job, on_delete=models.CASCADE, related_name="app_visits")
    app = models.CharField(max_length=20)
    user = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="app_visits"
    )
    session_key = models.CharField(max_length=40, editable=False)
    """Of the session of the portal that opened it: the visit ends with it."""
    ticket_digest = models.CharField(max_length=64, unique=True, editable=False)
    ticket_expires_at = models.DateTimeField(editable=False)
    cookie_digest = models.CharField(  # noqa: DJ001 - many have none, and it is unique
        max_length=64, unique=True, null=True, editable=False
    )
    """Null until the ticket was used."""
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ("id",)

    def __str__(self) -> str:
        return f"{self.user} at {self.app} of J-{self.job_id}"
