"""Arrays of jobs: the request that all members were made of. A member is an ordinary job."""

from typing import Self

from django.conf import settings
from django.db import models

from portal.accounts.models import Membership, Project, User
from portal.database.locks import LockingQuerySet


class JobArrayQuerySet(LockingQuerySet["JobArray"]):
    def visible_to(self, user: User) -> Self:
        """The arrays of the user's projects; every array for a platform admin."""
        if user.is_platform_admin:
            return self
        return self.filter(project_id__in=Membership.objects.filter(user=user).values("project_id"))


class JobArray(models.Model):
    """A request with indices or parameters. People call it A-<number>, and a member A-5[3]."""

    id = models.BigAutoField(primary_key=True)
    project = models.ForeignKey(Project, on_delete=models.PROTECT, related_name="arrays")
    owner = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="arrays"
    )
    name = models.CharField(max_length=63)
    request = models.JSONField()
    """The canonical request with `array` and `sweep`; those of the members have neither."""
    size = models.PositiveIntegerField()
    """How many members it has."""
    max_running = models.PositiveIntegerField(default=0)
    """How many may run at once; 0 if all."""
    submitted_at = models.DateTimeField(auto_now_add=True)

    objects = JobArrayQuerySet.as_manager()

    class Meta:
        ordering = ("-id",)

    def __str__(self) -> str:
        return f"{self.label} {self.name}"

    @property
    def label(self) -> str:
        return f"A-{self.pk}"
