"""Monthly reports by email. A row is written before its email is sent: none is sent twice."""

from django.conf import settings
from django.db import models

from portal.accounts.models import Project


class MonthlyReport(models.Model):
    """The email about a project's month to one of its admins."""

    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="+")
    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+")
    month = models.DateField()
    begun_at = models.DateTimeField(auto_now_add=True)
    # Null: sending began, and the worker ended before it was known whether the email left. It is
    # not sent again.
    sent_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ("-month", "project", "user")
        constraints = [
            models.UniqueConstraint(fields=("project", "user", "month"), name="report_once")
        ]

    def __str__(self) -> str:
        return f"{self.month:%Y-%m} of {self.project} to {self.user}"
