"""How large the body of a page's form or of a REST call may be, asked before it is read.

Django reads a whole body before it asks whose it is and what it is for.
"""

from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias

from asgiref.sync import ThreadSensitiveContext, sync_to_async
from django.conf import settings
from django.http import HttpResponse, JsonResponse
from django.http.cookie import parse_cookie
from django.template import loader
from django.urls import Resolver404, resolve

from agents.contract.file_transfer import MAX_FILE_CHUNK_BYTES, MAX_TREE_BODY_BYTES
from portal.accounts.sessions import is_signed_in
from portal.agentapi.http import announced_bytes
from portal.api.protocol.problems import CONTENT_TYPE, problem_body
from portal.asgi_scope import Receive, Scope, Send, header
from portal.error_codes import ErrorCode
from portal.files.uploads.browser_files import MAX_MANIFEST_BYTES
from portal.files.uploads.parts import MAX_UPLOAD_BYTES
from portal.request_id import HEADER, request_id, set_request_id
from portal.web.request.code_files import MARK

MIB = 1 << 20
# The fields of a form may have 1 MiB by DATA_UPLOAD_MAX_MEMORY_SIZE; their encoding adds to it.
MAX_FORM_BYTES = 4 * MIB
MAX_REST_BYTES = max(MAX_TREE_BODY_BYTES, MAX_FILE_CHUNK_BYTES)
# With the form's fields, and the names of 20,000 files.
MAX_FILES_FORM_BYTES = MAX_UPLOAD_BYTES + MAX_MANIFEST_BYTES + 2 * MAX_FORM_BYTES
# Of what is too large, this much is read and dropped, so that the answer is seen: a browser shows
# none to what it is still sending.
MAX_DROPPED_BYTES = 4 * MAX_FILES_FORM_BYTES

Application: TypeAlias = Callable[[Any, Any, Any], Awaitable[None]]


class BodyBeyondLimit(Exception):
    """The caller has sent more than it may."""


class BoundedBodies:
    """Passes on the calls whose bodies are not too large, and refuses the others."""

    def __init__(self, application: Application, allowed_bytes: Callable[[Scope], int]) -> None:
        """`allowed_bytes` is asked in a thread, for a body that is larger than any form's."""
        self._application = application
        self._allowed_bytes = allowed_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        announced = announced_bytes(scope, unknown=MAX_FORM_BYTES + 1)
        if announced <= MAX_FORM_BYTES:
            # The server takes no more than was announced.
            await self._application(scope, receive, send)
            return
        async with ThreadSensitiveContext():
            allowed = await sync_to_async(self._allowed_bytes)(scope)
        reading = _BoundedReading(receive, allowed)
        try:
            if header(scope, "content-length") and announced > allowed:
                raise BodyBeyondLimit
            await self._application(scope, reading.receive, send)
        except BodyBeyondLimit:
            if allowed > MAX_FORM_BYTES:
                await reading.drop_rest()
            await _refuse(scope, send)


class _BoundedReading:
    def __init__(self, receive: Receive, allowed_bytes: int) -> None:
        self._receive = receive
        self._allowed_bytes = allowed_bytes
        self._taken_bytes = 0
        self._has_more = True

    async def receive(self) -> Any:
        """Raises BodyBeyondLimit."""
        message = await self._next()
        if self._taken_bytes > self._allowed_bytes:
            raise BodyBeyondLimit
        return message

    async def drop_rest(self) -> None:
        while self._has_more and self._taken_bytes <= MAX_DROPPED_BYTES:
            await self._next()

    async def _next(self) -> Any:
        message = await self._receive()
        self._taken_bytes += len(message.get("body", b""))
        self._has_more = message["type"] == "http.request" and message.get("more_body", False)
        return message


def page_bytes(scope: Scope) -> int:
    """Of a page's form: files are for those that take them, from people who are signed in."""
    try:
        view = resolve(scope["path"]).func
    except Resolver404:
        return MAX_FORM_BYTES
    session = parse_cookie(header(scope, "cookie")).get(settings.SESSION_COOKIE_NAME, "")
    takes_files = bool(getattr(view, MARK, False)) and is_signed_in(session)
    return MAX_FILES_FORM_BYTES if takes_files else MAX_FORM_BYTES


def rest_bytes(scope: Scope) -> int:
    """Of any call: the longest are the list of a tree and a chunk of a file."""
    return MAX_REST_BYTES


async def _refuse(scope: Scope, send: Send) -> None:
    set_request_id(header(scope, HEADER))
    response = _refusal(scope)
    headers = [(name.lower().encode(), value.encode("latin-1")) for name, value in response.items()]
    # A part of the body may not have been read.
    headers += [(b"connection", b"close"), (b"cache-control", b"no-store")]
    await send({"type": "http.response.start", "status": 413, "headers": headers})
    await send({"type": "http.response.body", "body": response.content})


def _refusal(scope: Scope) -> HttpResponse:
    if scope["path"].startswith("/api/"):
        sentence = f"A call's body may have at most {MAX_REST_BYTES // MIB} MiB"
        problem = problem_body(413, ErrorCode.TOO_LARGE, sentence, scope["path"])
        return JsonResponse(problem, content_type=CONTENT_TYPE)
    values = {"request_id": request_id(), "most_mib": MAX_UPLOAD_BYTES // MIB}
    return HttpResponse(loader.get_template("413.html").render(values))
