"""Serializers of trees, their files, and what a project may store."""

from typing import Any

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from agents.contract.file_transfer import (
    MAX_FILE_BYTES,
    MAX_HAVE_FILES,
    MAX_TREE_ENTRIES,
    MAX_TREE_PATH_BYTES,
    SHA256_PATTERN,
    TREE_PAGE_ENTRIES,
    TreeKind,
)
from portal.api.protocol.moments import UtcDateTimeField, UtcModelSerializer
from portal.files.limits import MAX_KEPT_DAYS, MAX_STORED_GIB, StoredLimits
from portal.files.models import CodeOrigin, Tree
from portal.files.removal import removal_at

KINDS = [(str(kind), str(kind)) for kind in TreeKind]


class TreeSerializer(UtcModelSerializer[Tree]):
    """`limits` of the context: those of the project."""

    id = serializers.CharField(source="pk")
    kind = serializers.ChoiceField(choices=KINDS)
    project = serializers.CharField(source="project.slug")
    job = serializers.CharField(source="job.label", default=None, allow_null=True)
    attempt = serializers.IntegerField(source="attempt.number", default=None, allow_null=True)
    left_out = serializers.IntegerField(help_text="links, devices and the like, which are not kept")
    removal_at = serializers.SerializerMethodField(
        method_name="get_removal", help_text="when the files will be removed; null: not decided"
    )

    class Meta:
        model = Tree
        fields = (
            *("id", "kind", "project", "job", "attempt", "rank", "step", "file_count"),
            *("total_bytes", "left_out", "creator", "created_at", "removed_at", "removal_at"),
        )

    @extend_schema_field(serializers.DateTimeField(allow_null=True))
    def get_removal(self, tree: Tree) -> str | None:
        at = removal_at(tree, self.context["limits"])
        return UtcDateTimeField().to_representation(at) if at else None


class ProjectCodeSerializer(serializers.Serializer[Any]):
    """Of a `StoredCode`."""

    id = serializers.CharField(source="tree.pk", help_text="what requests name as code")
    origin = serializers.ChoiceField(
        source="tree.origin",
        choices=[*((str(each), str(each)) for each in CodeOrigin), ("", "")],
        help_text="folder: sent over REST, as tessera submit --sync does; upload: sent with the "
        "request page; empty: not known",
    )
    digest = serializers.CharField(
        source="tree.digest", help_text="of all its paths and contents, by SHA-256"
    )
    file_count = serializers.IntegerField(source="tree.file_count")
    total_bytes = serializers.IntegerField(source="tree.total_bytes")
    creator = serializers.CharField(source="tree.creator", help_text="who sent it first")
    created_at = UtcDateTimeField(source="tree.created_at")
    job_count = serializers.IntegerField(source="use.count", help_text="how many jobs have it")
    jobs = serializers.ListField(
        source="use.jobs", child=serializers.CharField(), help_text="the newest of them"
    )
    is_needed = serializers.BooleanField(help_text="by a job that waits or runs")
    removal_at = UtcDateTimeField(
        source="removal",
        allow_null=True,
        help_text="when the files will be removed; null: not decided while it is needed, or never",
    )


class ProjectCommitSerializer(serializers.Serializer[Any]):
    """Of a `CommitCode`."""

    repository = serializers.CharField(help_text="as requests name it, with the branch or tag")
    commit = serializers.CharField()
    creator = serializers.CharField(help_text="whose job was the first with it")
    first_at = UtcDateTimeField(help_text="when that job was submitted")
    last_at = UtcDateTimeField(help_text="when the last job with it was submitted")
    job_count = serializers.IntegerField(source="use.count", help_text="how many jobs ran it")
    jobs = serializers.ListField(
        source="use.jobs", child=serializers.CharField(), help_text="the newest of them"
    )


class TreeFileSerializer(serializers.Serializer[Any]):
    path = serializers.CharField(max_length=MAX_TREE_PATH_BYTES, trim_whitespace=False)
    sha256 = serializers.RegexField(f"^{SHA256_PATTERN}\\Z")
    size = serializers.IntegerField(min_value=0, max_value=MAX_FILE_BYTES)
    executable = serializers.BooleanField(default=False)


class TreeFilesQuerySerializer(serializers.Serializer[Any]):
    after = serializers.IntegerField(
        min_value=0, max_value=10**9, default=0, help_text="how many files come before"
    )
    limit = serializers.IntegerField(min_value=1, max_value=TREE_PAGE_ENTRIES, default=200)


class ContentQuerySerializer(serializers.Serializer[Any]):
    path = serializers.CharField(max_length=MAX_TREE_PATH_BYTES, trim_whitespace=False)


class ContentSerializer(serializers.Serializer[Any]):
    sha256 = serializers.RegexField(f"^{SHA256_PATTERN}\\Z")
    size = serializers.IntegerField(min_value=0, max_value=MAX_FILE_BYTES)


class HaveRequestSerializer(serializers.Serializer[Any]):
    files = serializers.ListField(child=ContentSerializer(), max_length=MAX_HAVE_FILES)


class FileProgressSerializer(serializers.Serializer[Any]):
    sha256 = serializers.CharField()
    received = serializers.IntegerField(help_text="bytes; the next chunk starts here")
    complete = serializers.BooleanField(help_text="all bytes are there, with this SHA-256")


class ChunkQuerySerializer(serializers.Serializer[Any]):
    size = serializers.IntegerField(
        min_value=0, max_value=MAX_FILE_BYTES, help_text="of the whole file"
    )
    offset = serializers.IntegerField(min_value=0, max_value=MAX_FILE_BYTES)


class CodeRequestSerializer(serializers.Serializer[Any]):
    files = serializers.ListField(child=TreeFileSerializer(), max_length=MAX_TREE_ENTRIES)


class StorageSerializer(serializers.Serializer[StoredLimits]):
    stored_bytes = serializers.IntegerField(help_text="of all files, and of those that arrive")
    stored_gib = serializers.IntegerField(help_text="the most that the project may store")
    kept_days = serializers.IntegerField(
        help_text="how long files are kept after the last job that used them; 0: for ever"
    )
    is_own = serializers.BooleanField(help_text="false: the limits of the settings")
    version = serializers.IntegerField()


class StorageRequestSerializer(serializers.Serializer[Any]):
    stored_gib = serializers.IntegerField(
        min_value=0, max_value=MAX_STORED_GIB, allow_null=True, help_text="null: as the settings"
    )
    kept_days = serializers.IntegerField(
        min_value=0, max_value=MAX_KEPT_DAYS, allow_null=True, help_text="null: as the settings"
    )
