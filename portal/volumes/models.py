"""Volumes, the projects that may use them, and the jobs that do."""

from django.db import models
from django.db.models import Q

from agents.contract.volumes import MAX_SUBPATH_BYTES, MAX_TARGET_BYTES
from portal.accounts.models import Project
from portal.jobs.models import Job


class Volume(models.Model):
    """A folder below a root that nodes offer. Every node that offers the root has it."""

    name = models.CharField(max_length=63, unique=True)
    description = models.CharField(max_length=200, blank=True, default="")
    # A name in the policies of nodes, never a path of theirs.
    root = models.CharField(max_length=63)
    # Below the root; empty for the root itself.
    subpath = models.CharField(max_length=MAX_SUBPATH_BYTES, blank=True, default="")
    read_only = models.BooleanField(default=False)
    # What it should not exceed, 0 for no limit. Told to people; the file system has to enforce it.
    quota_mib = models.BigIntegerField(default=0)
    quota_files = models.BigIntegerField(default=0)
    projects = models.ManyToManyField(Project, related_name="volumes")
    # Counts changes.
    version = models.PositiveIntegerField(default=1, editable=False)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ("name",)
        constraints = [
            models.CheckConstraint(
                condition=Q(quota_mib__gte=0, quota_files__gte=0), name="volume_quota"
            )
        ]

    def __str__(self) -> str:
        return self.name


class VolumeUse(models.Model):
    """A volume in the containers of a job."""

    job = models.ForeignKey(Job, on_delete=models.CASCADE, related_name="volume_uses")
    volume = models.ForeignKey(Volume, on_delete=models.CASCADE, related_name="uses")
    # In the container.
    path = models.CharField(max_length=MAX_TARGET_BYTES)
    # By the request, or because the volume is.
    read_only = models.BooleanField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=("job", "path"), name="volume_path_once")]

    def __str__(self) -> str:
        return f"{self.volume} at {self.path} of {self.job}"
