"""Registries as rows."""

import base64
import hashlib

from django.db import models

from agents.contract.registries import MAX_REGISTRY_LENGTH, MAX_USER_LENGTH
from portal.accounts.models import Project
from portal.sealing import Seal


def _key(secret: str) -> bytes:
    digest = hashlib.sha256(b"tessera registries\0" + secret.encode()).digest()
    return base64.urlsafe_b64encode(digest)


REGISTRY_SEAL = Seal(_key)


class Registry(models.Model):
    """A registry that a project is signed in to, and as whom."""

    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="registries")
    # A host, and perhaps the beginning of a path: as `agents.contract.registries` reads it.
    address = models.CharField(max_length=MAX_REGISTRY_LENGTH)
    user = models.CharField(max_length=MAX_USER_LENGTH)
    # The password, encrypted with the server's key. Nothing but the node that pulls gets it.
    sealed = models.TextField(editable=False)
    # The name of the user who set it last.
    author = models.CharField(max_length=150)
    set_at = models.DateTimeField()
    # When a node was last given it.
    used_at = models.DateTimeField(null=True, blank=True, editable=False)

    class Meta:
        ordering = ("address", "id")
        verbose_name_plural = "registries"
        constraints = [models.UniqueConstraint(fields=("project", "address"), name="registry_once")]

    def __str__(self) -> str:
        return self.address
