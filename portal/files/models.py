"""Contents, the trees that name them, and how much a project stores."""

import uuid
from enum import StrEnum
from typing import Self

from django.db import models
from django.db.models import F, Q

from agents.contract.file_transfer import MAX_TREE_PATH_BYTES, TreeKind
from portal.accounts.models import Project
from portal.choices import choices_from_enum, enum_check
from portal.database.locks import LockingQuerySet
from portal.jobs.models import Attempt, Job, Replica


class ProjectFiles(models.Model):
    """How much a project stores, and its own limits. Its row is locked where bytes are reserved."""

    project = models.OneToOneField(
        Project, primary_key=True, on_delete=models.CASCADE, related_name="files"
    )
    stored_bytes = models.PositiveBigIntegerField(default=0)
    """Of all contents, with what is reserved for those that have not arrived whole."""
    stored_gib = models.PositiveIntegerField(null=True, blank=True)
    """The most that it may store; null: the setting."""
    kept_days = models.PositiveIntegerField(null=True, blank=True)
    """How long files are kept after the end of the last job that used them; null: the setting."""
    version = models.PositiveIntegerField(default=1)

    def __str__(self) -> str:
        return f"files of {self.project}"


class StoredFile(models.Model):
    """A content of one project, kept as a stream. It counts as `size` from its first chunk on."""

    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="stored_files")
    sha256 = models.CharField(max_length=64)
    size = models.PositiveBigIntegerField()
    received_bytes = models.PositiveBigIntegerField(default=0)
    stream = models.CharField(max_length=96)
    """The name of its stream; never used again for other bytes."""
    is_complete = models.BooleanField(default=False)
    """All bytes are there, and have this SHA-256."""
    checked_at = models.DateTimeField(null=True, blank=True)
    """While the SHA-256 is being compared: when that last came further."""
    removable_at = models.DateTimeField(null=True, blank=True)
    """When it may be removed if no tree has it; null while one does."""

    objects = LockingQuerySet["StoredFile"].as_manager()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=("project", "sha256", "size"), name="file_once"),
            models.CheckConstraint(
                condition=Q(received_bytes__lte=F("size")), name="file_received_within_size"
            ),
        ]
        indexes = [
            models.Index(
                fields=("removable_at",),
                condition=Q(removable_at__isnull=False),
                name="file_removable",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.sha256[:12]}, {self.size} bytes"


class CodeOrigin(StrEnum):
    """How code came to the portal."""

    FOLDER = "folder"
    """`tessera submit --sync` sent it, or another client of REST."""
    UPLOAD = "upload"
    """A browser sent it with the request form."""


class TreeQuerySet(LockingQuerySet["Tree"]):
    def with_files(self) -> Self:
        """Those whose files have not been removed."""
        return self.filter(removed_at__isnull=True)

    def newest_first(self) -> Self:
        """Of one job: what a later attempt saved is newer, whenever it arrived."""
        return self.order_by("-attempt", "-created_at", "-pk")


class Tree(models.Model):
    """Paths with their contents, written once. The row stays after its files were removed."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="trees")
    kind = models.CharField(max_length=12, choices=choices_from_enum(TreeKind))
    job = models.ForeignKey(
        Job, null=True, blank=True, on_delete=models.CASCADE, related_name="trees"
    )
    """Null for code, which any job of the project may use."""
    attempt = models.ForeignKey(
        Attempt, null=True, blank=True, on_delete=models.CASCADE, related_name="trees"
    )
    replica = models.ForeignKey(
        Replica, null=True, blank=True, on_delete=models.CASCADE, related_name="trees"
    )
    rank = models.PositiveSmallIntegerField(default=0)
    step = models.PositiveBigIntegerField(default=0)
    """Of a checkpoint: the one that its job named, or 0."""
    digest = models.CharField(max_length=64)
    """Of all its paths and contents: the same tree again is this one."""
    file_count = models.PositiveIntegerField()
    total_bytes = models.PositiveBigIntegerField()
    left_out = models.PositiveIntegerField(default=0)
    """Links, devices and the like, which no tree has."""
    creator = models.CharField(max_length=150, blank=True, default="")
    """Of code: the user who sent it."""
    origin = models.CharField(
        max_length=12, blank=True, default="", db_default="", choices=choices_from_enum(CodeOrigin)
    )
    """Of code: how it came; empty where that is not known any more."""
    created_at = models.DateTimeField()
    removed_at = models.DateTimeField(null=True, blank=True)

    objects = TreeQuerySet.as_manager()

    class Meta:
        constraints = [
            enum_check("kind", TreeKind, "tree_kind"),
            models.UniqueConstraint(
                fields=("project", "digest"),
                condition=Q(kind=TreeKind.CODE, removed_at__isnull=True),
                name="tree_code_once",
            ),
        ]
        indexes = [
            models.Index(fields=("job", "kind", "-created_at"), name="tree_of_job"),
            models.Index(
                fields=("created_at",), condition=Q(removed_at__isnull=True), name="tree_kept"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.kind} of {self.job or self.project}"


class TreeEntry(models.Model):
    """One path of a tree."""

    tree = models.ForeignKey(Tree, on_delete=models.CASCADE, related_name="entries")
    position = models.PositiveIntegerField()
    """Its place among the paths of the tree, in their order."""
    path = models.CharField(max_length=MAX_TREE_PATH_BYTES)
    file = models.ForeignKey(StoredFile, on_delete=models.PROTECT, related_name="entries")
    executable = models.BooleanField(default=False)

    class Meta:
        ordering = ("tree", "position")
        constraints = [
            models.UniqueConstraint(fields=("tree", "position"), name="tree_entry_place"),
            models.UniqueConstraint(fields=("tree", "path"), name="tree_entry_path"),
        ]

    def __str__(self) -> str:
        return self.path
