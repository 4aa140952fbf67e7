"""What was mailed: a row stands before its mail goes out, so that no mail goes out twice."""

from django.conf import settings
from django.db import models

from portal.accounts.models import Project


class MonthlyReport(models.Model):
    """The mail about a project's month to one of its admins. `sent_at` null: begun, and whether it
    arrived is not known, as the worker died meanwhile; it is not sent again by itself."""

    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="+")
    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+")
    month = models.DateField()
    begun_at = models.DateTimeField(auto_now_add=True)
    sent_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ("-month", "project", "user")
        constraints = [
            models.UniqueConstraint(fields=("project", "user", "month"), name="report_once")
        ]

    def __str__(self) -> str:
        return f"{self.month:%Y-%m} of {self.project} to {self.user}"
