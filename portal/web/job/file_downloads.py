"""Files of a job as downloads: one file, a picture of the preview, or all of a tree as a zip."""

from collections.abc import Callable
from functools import partial
from uuid import UUID

from asgiref.sync import sync_to_async
from django.contrib.auth.models import AnonymousUser
from django.contrib.auth.views import redirect_to_login
from django.db import connection
from django.http import Http404, HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.views.decorators.http import require_safe

from portal.accounts.models import User
from portal.errors import Refused
from portal.event_stream import release_connection
from portal.files.delivery import archive_response, file_response
from portal.files.models import Tree
from portal.files.names import archive_name
from portal.files.selectors import require_files, tree_content, visible_tree
from portal.web.job.file_preview import IMAGE_BYTES, file_head, image_kind
from portal.web.wording.messages import refusal_text

NOT_FOUND = 404


@require_safe
async def file_download(request: HttpRequest, tree: UUID) -> HttpResponseBase:
    """The file at `path`, or a range of it."""
    return await _served(request, tree, partial(_file, request))


@require_safe
async def image(request: HttpRequest, tree: UUID) -> HttpResponseBase:
    """The same, shown by the browser, if its bytes are those of a picture."""
    return await _served(request, tree, partial(_image, request))


@require_safe
async def archive(request: HttpRequest, tree: UUID) -> HttpResponseBase:
    """All files."""
    return await _served(request, tree, _archive)


async def _served(
    request: HttpRequest, tree: UUID, serve: Callable[[Tree], HttpResponseBase]
) -> HttpResponseBase:
    """No database connection is held while a large file is sent."""
    user = await request.auser()
    await release_connection()
    if isinstance(user, AnonymousUser):
        return redirect_to_login(request.get_full_path())
    try:
        return await sync_to_async(_response, thread_sensitive=False)(user, tree, serve)
    except Refused as refused:
        if refused.status == NOT_FOUND:
            raise Http404 from refused
        return HttpResponse(
            refusal_text(refused), status=refused.status, content_type="text/plain; charset=utf-8"
        )


def _response(
    user: User, tree: UUID, serve: Callable[[Tree], HttpResponseBase]
) -> HttpResponseBase:
    try:
        return serve(visible_tree(user, tree))
    finally:
        connection.close()


def _file(request: HttpRequest, tree: Tree) -> HttpResponseBase:
    path = request.GET.get("path", "")
    return file_response(request, tree_content(tree, path), path.rpartition("/")[2])


def _image(request: HttpRequest, tree: Tree) -> HttpResponseBase:
    path = request.GET.get("path", "")
    file = tree_content(tree, path)
    kind = image_kind(file_head(file))
    if not kind or file.size > IMAGE_BYTES:
        raise Http404
    response = file_response(request, file, path.rpartition("/")[2])
    # The browser takes it for this kind or for nothing.
    response["Content-Type"] = kind
    response["Content-Disposition"] = "inline"
    return response


def _archive(tree: Tree) -> HttpResponseBase:
    require_files(tree)
    return archive_response(tree, archive_name(tree))
