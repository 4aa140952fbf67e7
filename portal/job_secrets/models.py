"""Secrets as rows."""

import base64
import hashlib

from django.conf import settings
from django.db import models
from django.db.models import Q

from portal.accounts.models import Project
from portal.sealing import Seal

MAX_NAME = 64


def _key(secret: str) -> bytes:
    digest = hashlib.sha256(b"tessera job secrets\0" + secret.encode()).digest()
    return base64.urlsafe_b64encode(digest)


JOB_SECRET_SEAL = Seal(_key)


class JobSecret(models.Model):
    """A secret of a user, for their own jobs, or of a project, for the jobs of its members."""

    user = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        null=True,
        blank=True,
        on_delete=models.CASCADE,
        related_name="job_secrets",
    )
    project = models.ForeignKey(
        Project, null=True, blank=True, on_delete=models.CASCADE, related_name="job_secrets"
    )
    name = models.CharField(max_length=MAX_NAME)
    # The value, encrypted with the server's key. Nothing but the node of a job gets it.
    sealed = models.TextField(editable=False)
    # The name of the user who set it last.
    author = models.CharField(max_length=150)
    set_at = models.DateTimeField()
    # When a node was last given it.
    used_at = models.DateTimeField(null=True, blank=True, editable=False)

    class Meta:
        ordering = ("name", "id")
        constraints = [
            models.UniqueConstraint(
                fields=["user", "name"], condition=Q(project=None), name="secret_of_user"
            ),
            models.UniqueConstraint(
                fields=["project", "name"], condition=Q(user=None), name="secret_of_project"
            ),
            models.CheckConstraint(
                condition=Q(user=None, project__isnull=False) | Q(user__isnull=False, project=None),
                name="secret_one_owner",
            ),
        ]

    def __str__(self) -> str:
        return self.name
