"""REST views of trees: what jobs wrote, and code that people send for them."""

import re
from collections.abc import Mapping
from typing import IO, Any
from uuid import UUID

from django.http.response import HttpResponseBase
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, OpenApiResponse, extend_schema
from rest_framework import serializers, status
from rest_framework.generics import GenericAPIView
from rest_framework.parsers import BaseParser
from rest_framework.request import Request
from rest_framework.response import Response

from agents.contract.file_transfer import (
    MAX_FILE_CHUNK_BYTES,
    MAX_TREE_BODY_BYTES,
    SHA256_PATTERN,
    FileContent,
    TreeFile,
)
from portal.accounts.models import Project, TokenScope
from portal.accounts.rights import require_worker
from portal.accounts.selectors import visible_project
from portal.api.files.serializers import (
    ChunkQuerySerializer,
    CodeRequestSerializer,
    ContentQuerySerializer,
    FileProgressSerializer,
    HaveRequestSerializer,
    ProjectCodeSerializer,
    ProjectCommitSerializer,
    StorageRequestSerializer,
    StorageSerializer,
    TreeFileSerializer,
    TreeFilesQuerySerializer,
    TreeSerializer,
)
from portal.api.protocol.content import BoundedJSONParser
from portal.api.protocol.openapi import list_response
from portal.api.protocol.pagination import NewestFirstPagination, is_moment
from portal.api.protocol.permissions import IsPlatformAdmin, SeesProject
from portal.api.protocol.problems import BodyTooLarge
from portal.api.protocol.requests import ApiRequest
from portal.api.protocol.versions import ETAG, IF_MATCH, if_match_number, stale_version_shown
from portal.api.protocol.views import ApiView
from portal.error_codes import ErrorCode
from portal.errors import Refused
from portal.files.code_list import project_code, project_commits, stored_code
from portal.files.delivery import archive_response, file_response
from portal.files.limits import stored_limits, stored_limits_set
from portal.files.models import CodeOrigin, Tree
from portal.files.names import archive_name
from portal.files.receiving import FileChunk, chunk_append, file_check, files_received
from portal.files.removal import tree_remove
from portal.files.selectors import job_trees, require_files, tree_content, tree_rows, visible_tree
from portal.files.services import code_commit
from portal.jobs.selectors import job_visible

# Of a job with many checkpoints, the newest.
MAX_TREES = 200
BYTES = {(200, "application/octet-stream"): OpenApiResponse(OpenApiTypes.BINARY, "the file")}
RANGE = OpenApiParameter(
    "Range", OpenApiTypes.STR, OpenApiParameter.HEADER, description="one range, as in bytes=1000-"
)


class ChunkParser(BaseParser):
    """The body as bytes, of at most one chunk."""

    media_type = "application/octet-stream"

    def parse(
        self,
        stream: IO[Any],
        media_type: str | None = None,
        parser_context: Mapping[str, Any] | None = None,
    ) -> Any:
        data = stream.read(MAX_FILE_CHUNK_BYTES + 1)
        if len(data) > MAX_FILE_CHUNK_BYTES:
            raise BodyTooLarge(f"A chunk has at most {MAX_FILE_CHUNK_BYTES} bytes")
        return data


class TreeParser(BoundedJSONParser):
    """JSON with many paths."""

    max_bytes = MAX_TREE_BODY_BYTES


class JobTrees(ApiView):
    @extend_schema(operation_id="job_trees", responses=list_response(TreeSerializer))
    def get(self, request: ApiRequest, job: str) -> Response:
        """What a job wrote: outputs and checkpoints, the newest first."""
        row = job_visible(request.caller, job)
        trees = job_trees(row).select_related("job", "project", "attempt")[:MAX_TREES]
        context = {"limits": stored_limits(row.project_id)}
        return Response({"results": TreeSerializer(trees, many=True, context=context).data})


class TreeDetail(ApiView):
    service_roles = {"DELETE": "owner of the job, sender of the code, or admin"}

    @extend_schema(operation_id="tree_show", responses=TreeSerializer)
    def get(self, request: ApiRequest, tree: str) -> Response:
        """One tree."""
        return Response(_data(_tree(request, tree)))

    @extend_schema(operation_id="tree_remove", responses={204: None})
    def delete(self, request: ApiRequest, tree: str) -> Response:
        """Remove its files now. Refused while a job that starts with them waits or runs."""
        tree_remove(tree=_tree(request, tree), actor=request.caller)
        return Response(status=status.HTTP_204_NO_CONTENT)


class TreeFiles(ApiView):
    @extend_schema(
        operation_id="tree_files",
        parameters=[TreeFilesQuerySerializer],
        responses=list_response(
            TreeFileSerializer, next_after=serializers.IntegerField(allow_null=True)
        ),
    )
    def get(self, request: ApiRequest, tree: str) -> Response:
        """Its files, by path; `next_after` is for the next page."""
        row = _tree(request, tree)
        query = request.validated_query(TreeFilesQuerySerializer)
        require_files(row)
        rows = tree_rows(row, query["after"], query["limit"])
        end = query["after"] + len(rows)
        following = end if rows and end < row.file_count else None
        results = TreeFileSerializer(rows, many=True).data
        return Response({"results": results, "next_after": following})


class TreeContent(ApiView):
    @extend_schema(
        operation_id="tree_content",
        parameters=[ContentQuerySerializer, RANGE],
        responses=BYTES
        | {
            (206, "application/octet-stream"): OpenApiResponse(OpenApiTypes.BINARY, "the range"),
            304: OpenApiResponse(description="Not modified"),
        },
    )
    def get(self, request: ApiRequest, tree: str) -> HttpResponseBase:
        """One file, or a range of it. The ETag is its SHA-256."""
        row = _tree(request, tree)
        path = request.validated_query(ContentQuerySerializer)["path"]
        file = tree_content(row, path)
        return file_response(request._request, file, path.rpartition("/")[2])


class TreeArchive(ApiView):
    @extend_schema(
        operation_id="tree_archive",
        responses={(200, "application/zip"): OpenApiResponse(OpenApiTypes.BINARY, "all files")},
    )
    def get(self, request: ApiRequest, tree: str) -> HttpResponseBase:
        """All files of a tree as a zip, made while it is sent."""
        row = _tree(request, tree)
        require_files(row)
        return archive_response(row, archive_name(row))


class ProjectFilesHave(ApiView):
    permissions = {"POST": (SeesProject,)}
    service_roles = {"POST": "member of the project"}

    @extend_schema(
        operation_id="project_files_have",
        request=HaveRequestSerializer,
        responses=list_response(FileProgressSerializer),
    )
    def post(self, request: ApiRequest, project: str) -> Response:
        """What the project has of each of these files. Send those that are not complete."""
        row = _worked_in(request, project)
        body = request.validated_data(HaveRequestSerializer)
        contents = tuple(FileContent(**one) for one in body["files"])
        found = files_received(row.pk, contents)
        return Response({"results": FileProgressSerializer(found, many=True).data})


class ProjectFile(ApiView):
    parser_classes = (ChunkParser,)
    service_roles = {"PUT": "member of the project"}

    @extend_schema(
        operation_id="project_file_put",
        parameters=[ChunkQuerySerializer],
        request={"application/octet-stream": OpenApiTypes.BINARY},
        responses=FileProgressSerializer,
    )
    def put(self, request: ApiRequest, project: str, sha256: str) -> Response:
        """Append a chunk of at most 4 MiB to a file. A repeated one is harmless."""
        row = _worked_in(request, project)
        query = request.validated_query(ChunkQuerySerializer)
        if not re.fullmatch(SHA256_PATTERN, sha256):
            sentence = "A file is named by its SHA-256, in 64 hexadecimal digits"
            raise Refused(ErrorCode.INVALID_FIELD, sentence, "sha256")
        data = request.data if isinstance(request.data, bytes) else b""
        content = FileContent(sha256, query["size"])
        file = chunk_append(FileChunk(row.pk, content, query["offset"], data))
        return Response(FileProgressSerializer(file_check(file)).data)


class CodePagination(NewestFirstPagination):
    ordering = ("-created_at", "-pk")

    def is_position(self, request: Request, position: str) -> bool:
        return is_moment(position)


class ProjectTrees(ApiView, GenericAPIView[Tree]):
    parser_classes = (TreeParser,)
    pagination_class = CodePagination
    serializer_class = ProjectCodeSerializer
    permissions = {"GET": (SeesProject,)}
    service_roles = {"POST": "member of the project"}

    @extend_schema(operation_id="project_code", responses=ProjectCodeSerializer(many=True))
    def get(self, request: ApiRequest, project: str) -> Response:
        """The code that was sent to the project and is still there, the newest first: with the jobs
        that have it, and when it will be removed."""
        row = visible_project(request.caller, project)
        page = self.paginate_queryset(project_code(row)) or []
        found = stored_code(page, stored_limits(row.pk))
        return self.get_paginated_response(ProjectCodeSerializer(found, many=True).data)

    @extend_schema(
        operation_id="project_code_commit",
        request=CodeRequestSerializer,
        responses={201: TreeSerializer},
    )
    def post(self, request: ApiRequest, project: str) -> Response:
        """Make a tree of code of files that the project has. The same files are the same tree."""
        row = _worked_in(request, project)
        body = request.validated_data(CodeRequestSerializer)
        files = tuple(TreeFile(**one) for one in body["files"])
        creator = request.caller.username
        tree = code_commit(
            project_id=row.pk, files=files, creator=creator, origin=CodeOrigin.FOLDER
        )
        return Response(_data(tree), status=status.HTTP_201_CREATED)


class ProjectCommits(ApiView):
    permissions = {"GET": (SeesProject,)}

    @extend_schema(operation_id="project_commits", responses=list_response(ProjectCommitSerializer))
    def get(self, request: ApiRequest, project: str) -> Response:
        """The commits of git repositories that jobs of the project ran, the latest first. The
        portal has no copy of them."""
        found = project_commits(visible_project(request.caller, project))
        return Response({"results": ProjectCommitSerializer(found, many=True).data})


class ProjectStorage(ApiView):
    scopes = {"PUT": TokenScope.ADMIN}
    permissions = {"PUT": (SeesProject, IsPlatformAdmin)}

    @extend_schema(operation_id="project_storage", parameters=[ETAG], responses=StorageSerializer)
    def get(self, request: ApiRequest, project: str) -> Response:
        """How much the project stores, how much it may, and for how long files are kept."""
        return _storage(visible_project(request.caller, project))

    @extend_schema(
        operation_id="project_storage_set",
        parameters=[IF_MATCH, ETAG],
        request=StorageRequestSerializer,
        responses=StorageSerializer,
    )
    def put(self, request: ApiRequest, project: str) -> Response:
        """Set both limits. Nothing is removed because of a lower one; nothing more is taken."""
        row = visible_project(request.caller, project)
        version = if_match_number(request)
        body = request.validated_data(StorageRequestSerializer)

        def current() -> tuple[Any, int]:
            limits = stored_limits(row.pk)
            return StorageSerializer(limits).data, limits.version

        with stale_version_shown(request.data, current):
            stored_limits_set(project=row, actor=request.caller.username, version=version, **body)
        return _storage(row)


def _tree(request: ApiRequest, tree: str) -> Tree:
    try:
        return visible_tree(request.caller, UUID(tree))
    except ValueError:
        sentence = "There is no such tree, or you may not see it"
        raise Refused(ErrorCode.NOT_FOUND, sentence) from None


def _worked_in(request: ApiRequest, project: str) -> Project:
    """The project, in which the caller may submit jobs. Raises Refused(not_found, forbidden)."""
    row = visible_project(request.caller, project)
    require_worker(request.caller, row)
    return row


def _data(tree: Tree) -> Any:
    return TreeSerializer(tree, context={"limits": stored_limits(tree.project_id)}).data


def _storage(project: Project) -> Response:
    limits = stored_limits(project.pk)
    return Response(StorageSerializer(limits).data, headers={"ETag": f'"{limits.version}"'})
