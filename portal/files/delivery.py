"""Responses with the bytes of files: whole, a range, or an archive, for REST and pages alike.

What a browser gets is a download and never a page: a file of a job may hold any markup.
"""

import re
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass

from asgiref.sync import sync_to_async
from django.db import connections
from django.http import HttpRequest, HttpResponse, StreamingHttpResponse
from django.http.response import HttpResponseBase
from django.utils.http import content_disposition_header

from agents.contract.message import Message
from portal.error_codes import ErrorCode
from portal.errors import Refused
from portal.files.archive import zip_pieces
from portal.files.models import StoredFile, Tree
from portal.files.receiving import OBJECT_BYTES
from portal.storage.ranges import range_pieces

# What is read at once, before the response begins; a store that fails then gives a refusal.
WHOLE_BYTES = OBJECT_BYTES
RANGE = re.compile(r"bytes=([0-9]{0,18})-([0-9]{0,18})")


@dataclass(frozen=True, slots=True)
class ByteRange:
    start: int
    end: int


def file_response(request: HttpRequest, file: StoredFile, name: str) -> HttpResponseBase:
    """The file, or the range of it that the request names. Raises Refused(range_beyond_end) and
    StoreError."""
    etag = f'"{file.sha256}"'
    if etag in request.headers.get("If-None-Match", ""):
        return _headed(HttpResponse(status=304), etag, name)
    part = _range(request, etag, file.size)
    start, end = (part.start, part.end) if part else (0, file.size)
    pieces = range_pieces(file.stream, start, end, OBJECT_BYTES)
    response = _response(pieces, end - start)
    response.status_code = 206 if part else 200
    response["Content-Length"] = str(end - start)
    if part:
        response["Content-Range"] = f"bytes {start}-{end - 1}/{file.size}"
    return _headed(response, etag, name)


def archive_response(tree: Tree, name: str) -> HttpResponseBase:
    """All files of the tree as a zip. Raises StoreError."""
    response = _response(zip_pieces(tree), tree.total_bytes + tree.file_count * 1_024)
    return _headed(response, f'"{tree.pk}"', name, "application/zip")


def _response(pieces: Iterator[bytes], size: int) -> HttpResponseBase:
    if size <= WHOLE_BYTES:
        return HttpResponse(b"".join(pieces))
    # The first piece comes before the headers.
    return StreamingHttpResponse(_in_threads(next(pieces), pieces))


async def _in_threads(piece: bytes, pieces: Iterator[bytes]) -> AsyncIterator[bytes]:
    """No database connection is held while the caller takes a piece."""
    following = sync_to_async(_following, thread_sensitive=False)
    while piece:
        yield piece
        piece = await following(pieces)


def _following(pieces: Iterator[bytes]) -> bytes:
    try:
        return next(pieces, b"")
    finally:
        connections.close_all()


def _headed(
    response: HttpResponseBase, etag: str, name: str, kind: str = "application/octet-stream"
) -> HttpResponseBase:
    response["Content-Type"] = kind
    response["Content-Disposition"] = content_disposition_header(True, name) or "attachment"
    response["X-Content-Type-Options"] = "nosniff"
    response["Content-Security-Policy"] = "sandbox; default-src 'none'"
    response["ETag"] = etag
    if kind != "application/zip":
        response["Accept-Ranges"] = "bytes"
    response["Cache-Control"] = "no-cache, private"
    return response


def _range(request: HttpRequest, etag: str, size: int) -> ByteRange | None:
    """The one range that is asked for; None for all of it, as for any header that is not one range.
    Raises Refused(range_beyond_end)."""
    match = RANGE.fullmatch(request.headers.get("Range", ""))
    if not match or request.headers.get("If-Range", etag) != etag:
        return None
    first, last = match.groups()
    if not first:
        if not last:
            return None
        start, end = max(0, size - int(last)), size
    else:
        start, end = int(first), min(size, int(last) + 1) if last else size
        if last and int(last) < start:
            return None
    if start >= size:
        sentence = Message("The file has only %(size)s bytes", size=size)
        raise Refused(ErrorCode.RANGE_BEYOND_END, sentence, "Range")
    return ByteRange(start, end)
