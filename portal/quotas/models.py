"""How much a project, or one user inside it, may hold at once. Integer units of 1/56,000 GPU."""

from django.conf import settings
from django.db import models
from django.db.models import F, Q

from portal.accounts.models import Project


class Quota(models.Model):
    """`user` null: the whole project. `used_units` counts live allocations.

    `guard_units` is what the database enforces: the limit, or what was already held when an admin
    lowered the limit below it. It falls back to the limit as work ends.
    """

    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="quotas")
    user = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        null=True,
        blank=True,
        on_delete=models.CASCADE,
        related_name="quotas",
    )
    limit_units = models.PositiveBigIntegerField()
    guard_units = models.PositiveBigIntegerField()
    used_units = models.PositiveBigIntegerField(default=0)
    version = models.PositiveIntegerField(default=1)

    class Meta:
        ordering = ("project", "user")
        constraints = [
            models.UniqueConstraint(
                fields=("project",), condition=Q(user__isnull=True), name="quota_project_once"
            ),
            models.UniqueConstraint(fields=("project", "user"), name="quota_user_once"),
            models.CheckConstraint(
                condition=Q(used_units__lte=F("guard_units")), name="quota_not_exceeded"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.user or 'all'} in {self.project}: {self.limit_units}"


def quotas_of(project_id: int, user_id: int) -> models.QuerySet[Quota]:
    """The quotas that an allocation of this user in this project counts against."""
    mine = Q(user__isnull=True) | Q(user_id=user_id)
    return Quota.objects.filter(mine, project_id=project_id)
