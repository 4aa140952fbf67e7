"""REST calls through the web process: each in one thread, which then holds nothing of it."""

import asyncio
import json
import threading
from datetime import timedelta

import pytest
from django.core.signals import request_finished, request_started
from django.db import connection

from portal.accounts.models import ApiToken
from portal.asgi import application
from portal.audit.selectors import newest_event_id
from portal.live.listener import listener
from portal.stream_access import open_stream_count
from tests.support.rows import a_job, a_project, a_request, a_user

pytestmark = pytest.mark.django_db(transaction=True)
# No test waits so long: only one that fails does.
SECONDS = 60


@pytest.fixture
def alice():
    return a_user("alice")


@pytest.fixture
def vision(alice):
    return a_project("vision", alice)


@pytest.fixture
def secret(alice):
    return ApiToken.objects.create(user=alice, name="t", expiry=timedelta(days=1))[1]


@pytest.fixture
def turns():
    """(thread, whether it has a database connection) when a request begins and when it is over."""
    noted = []

    def note(**_):
        noted.append((threading.current_thread().name, connection.connection is not None))

    request_started.connect(note)
    request_finished.connect(note)
    yield noted
    request_started.disconnect(note)
    request_finished.disconnect(note)


class Call:
    """One call of the web process, whose caller may hang up."""

    def __init__(self, method, path, secret, body=b""):
        path, _, query = path.partition("?")
        headers = {"host": "testserver", "authorization": f"Bearer {secret}"}
        headers |= {"content-type": "application/json", "content-length": str(len(body))}
        self.scope = {
            "type": "http",
            "http_version": "1.1",
            "method": method,
            "path": path,
            "query_string": query.encode(),
            "headers": [(name.encode(), value.encode()) for name, value in headers.items()],
            "client": ("127.0.0.1", 4000),
            "server": ("testserver", 80),
        }
        self._to_read = [{"type": "http.request", "body": body}]
        self._hung_up = asyncio.Event()
        self.status, self.body, self.arrived = 0, b"", asyncio.Event()
        self.task = asyncio.ensure_future(application(self.scope, self._receive, self._send))

    def hang_up(self):
        self._hung_up.set()

    async def json(self):
        await self.ended()
        return json.loads(self.body)

    async def ended(self):
        await asyncio.wait_for(asyncio.shield(self.task), SECONDS)

    async def reads(self, part):
        while part not in self.body:
            self.arrived.clear()
            await asyncio.wait_for(self.arrived.wait(), SECONDS)

    async def _receive(self):
        if self._to_read:
            return self._to_read.pop()
        await self._hung_up.wait()
        return {"type": "http.disconnect"}

    async def _send(self, message):
        self.status = message.get("status", self.status)
        self.body += message.get("body", b"")
        self.arrived.set()


def in_the_web_process(steps):
    """Run `steps` on an event loop with a listener of its own."""

    async def run():
        ear = listener()
        try:
            return await steps()
        finally:
            await ear.close()

    return asyncio.run(run())


def keys_waited_for():
    return listener().keys()


async def until_waited_for(key, call):
    """Until somebody waits for the bell. A call that ended instead fails the test."""
    while key not in keys_waited_for():
        assert not call.task.done(), call.body
        await asyncio.sleep(0)


def test_a_call_begins_and_ends_in_one_thread_and_keeps_no_connection(secret, vision, turns):
    async def steps():
        body = json.dumps(a_request(vision)).encode()
        new = await Call("POST", "/api/v1/jobs", secret, body).json()
        return new, await Call("GET", new["links"]["self"], secret).json()

    new, shown = in_the_web_process(steps)
    assert new["status"] == "queued"
    assert (shown["id"], shown["uid"]) == (new["id"], new["uid"])
    (begun, ended), (begun_again, ended_again) = turns[:2], turns[2:]
    assert begun == ended and begun[0].startswith("rest")
    assert begun_again == ended_again
    assert not any(has_connection for _, has_connection in turns)


def test_a_refusal_and_a_body_that_is_too_large_are_problems(secret, vision, turns):
    async def steps():
        await (missing := Call("GET", "/api/v1/jobs/J-9", secret)).ended()
        body = b" " * (2 << 20)
        await (large := Call("POST", "/api/v1/jobs", secret, body)).ended()
        await (nobody := Call("GET", "/api/v1/jobs", "tsr_of-nobody")).ended()
        return missing, large, nobody

    calls = in_the_web_process(steps)
    assert [call.status for call in calls] == [404, 413, 401]
    assert [json.loads(call.body)["status"] for call in calls] == [404, 413, 401]
    assert not any(has_connection for _, has_connection in turns)


def test_a_long_poll_hears_the_bell(secret, alice, vision):
    job = a_job(alice, vision)
    newest = newest_event_id(job)

    async def steps():
        call = Call("GET", f"/api/v1/jobs/{job.label}?wait=30&since={newest}", secret)
        await until_waited_for(f"job:{job.pk}", call)
        cancel = Call("POST", f"/api/v1/jobs/{job.label}/cancel", secret)
        return await cancel.json(), await call.json()

    cancelled, shown = in_the_web_process(steps)
    assert (cancelled["status"], shown["status"]) == ("cancelled", "cancelled")


def test_a_long_poll_ends_when_its_caller_hangs_up(secret, alice, vision, turns):
    job = a_job(alice, vision)

    async def steps():
        call = Call("GET", f"/api/v1/jobs/{job.label}?wait=30", secret)
        await until_waited_for(f"job:{job.pk}", call)
        call.hang_up()
        await call.ended()
        assert f"job:{job.pk}" not in keys_waited_for()
        return call

    assert in_the_web_process(steps).status == 0
    # The thread is free again, and keeps no connection.
    assert len(turns) == 2
    assert not any(has_connection for _, has_connection in turns)


def test_a_stream_of_events_holds_no_connection_and_ends_when_its_reader_hangs_up(
    secret, alice, vision, turns
):
    job = a_job(alice, vision)

    async def steps():
        call = Call("GET", "/api/v1/events/stream", secret)
        await until_waited_for("job:*", call)
        await Call("POST", f"/api/v1/jobs/{job.label}/cancel", secret).ended()
        await call.reads(b"cancelled")
        assert open_stream_count() == 1
        call.hang_up()
        await call.ended()
        return call

    assert in_the_web_process(steps).status == 200
    assert open_stream_count() == 0
    # The stream began, the cancel began and was over, the stream was over.
    assert len(turns) == 4
    assert not any(has_connection for _, has_connection in turns)
