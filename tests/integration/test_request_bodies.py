"""How large the body of a form may be: refused before it is read, and where it lies meanwhile."""

import asyncio
from pathlib import Path

import pytest
from django.test import Client

from portal.asgi import application
from portal.platform import Platform
from portal.request_bodies import MAX_DROPPED_BYTES, MAX_FILES_FORM_BYTES, MAX_FORM_BYTES, MIB
from tests.support.request_form import a_form
from tests.support.rows import a_node, a_project, a_user

pytestmark = pytest.mark.django_db(transaction=True)
TOKEN = "t" * 32
BOUNDARY = "part"


def a_body(size: int, **fields: str) -> bytes:
    """A form with a file of this size."""
    parts = [f'name="{name}"\r\n\r\n{value}' for name, value in fields.items()]
    parts.append('name="code_files"; filename="data.bin"\r\n\r\n' + "x" * size)
    head = f"--{BOUNDARY}\r\nContent-Disposition: form-data; "
    return ("\r\n".join(head + part for part in parts) + f"\r\n--{BOUNDARY}--\r\n").encode()


class Caller:
    """Sends a body of `size` bytes, `body` again and again; notes what was taken."""

    def __init__(self, size: int, body: bytes = b"x" * MIB):
        self.size, self.body, self.taken_bytes = size, body, 0
        self.status, self.headers, self.answer = 0, {}, b""
        self.spools: set[str] = set()

    def post(self, path: str, *, cookies: str = "", announces: bool = True) -> "Caller":
        headers = {
            "host": "testserver",
            "cookie": f"csrftoken={TOKEN}; {cookies}",
            "x-csrftoken": TOKEN,
            "content-type": f"multipart/form-data; boundary={BOUNDARY}",
            **(
                {"content-length": str(self.size)}
                if announces
                else {"transfer-encoding": "chunked"}
            ),
        }
        path, _, query = path.partition("?")
        scope = {
            "type": "http",
            "http_version": "1.1",
            "method": "POST",
            "path": path,
            "query_string": query.encode(),
            "headers": [(name.encode(), value.encode()) for name, value in headers.items()],
            "client": ("127.0.0.1", 4000),
            "server": ("testserver", 80),
        }
        asyncio.run(application(scope, self._receive, self._send))
        return self

    async def _receive(self):
        if self.taken_bytes >= self.size:
            await asyncio.Event().wait()
        opened = [fd for fd in Path("/proc/self/fd").iterdir() if fd.is_symlink()]
        self.spools |= {str(fd.readlink()) for fd in opened}
        start = self.taken_bytes % len(self.body)
        piece = self.body[start : start + MIB][: self.size - self.taken_bytes]
        self.taken_bytes += len(piece)
        return {"type": "http.request", "body": piece, "more_body": self.taken_bytes < self.size}

    async def _send(self, message):
        self.status = message.get("status", self.status)
        self.headers |= dict(message.get("headers", ()))
        self.answer += message.get("body", b"")


@pytest.fixture
def session():
    """The cookie of a member who is signed in."""
    olga = a_user("olga")
    a_project("vision", olga)
    a_node("n1")
    client = Client()
    client.force_login(olga)
    return f"sessionid={client.cookies['sessionid'].value}"


def test_a_stranger_sends_no_files():
    caller = Caller(MAX_FILES_FORM_BYTES).post("/request/")
    assert (caller.status, caller.taken_bytes) == (413, 0)
    assert caller.headers[b"connection"] == b"close"
    assert "files up to 128 MiB from signed-in users" in caller.answer.decode()


def test_a_body_that_announces_no_size_is_cut_off():
    caller = Caller(100 * MIB).post("/sign-in/", announces=False)
    assert caller.status == 413
    assert caller.taken_bytes <= MAX_FORM_BYTES + MIB


def test_a_page_without_files_takes_none_from_members_either(session):
    assert Caller(MAX_FORM_BYTES + 1).post("/account/", cookies=session).status == 413


def test_a_member_sees_that_an_upload_is_too_large_and_nothing_is_kept(session):
    caller = Caller(MAX_FILES_FORM_BYTES + 1).post("/request/", cookies=session)
    assert caller.status == 413
    assert caller.taken_bytes == caller.size < MAX_DROPPED_BYTES
    endless = Caller(MAX_DROPPED_BYTES * 2).post("/request/", cookies=session)
    assert endless.status == 413
    assert endless.taken_bytes <= MAX_DROPPED_BYTES + MIB


def test_a_rest_call_is_refused_by_its_size_as_a_problem():
    caller = Caller(MAX_FORM_BYTES + 1).post("/api/v1/jobs")
    assert (caller.status, caller.taken_bytes) == (413, 0)
    assert caller.headers[b"content-type"] == b"application/problem+json"
    assert b'"code": "too_large"' in caller.answer


def test_an_upload_waits_in_the_spool_folder(session, settings, tmp_path):
    settings.PLATFORM = Platform(spool_folder=str(tmp_path))
    body = a_body(5 * MIB, **a_form())
    caller = Caller(len(body), body).post("/request/preview?of=code", cookies=session)
    assert (caller.status, caller.taken_bytes) == (200, len(body))
    assert b"data.bin" in caller.answer or b"1 file" in caller.answer
    assert any(name.startswith(str(tmp_path)) for name in caller.spools)
