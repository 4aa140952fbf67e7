"""Findings 2.12 and 2.14 of the security review: a stream ends with its session, and a user has a
limited number of them."""

import asyncio
import gc
from collections.abc import Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from threading import Thread
from typing import Any

import pytest
from allauth.account.signals import password_changed
from asgiref.sync import sync_to_async
from django.contrib.sessions.models import Session
from django.db import connection
from django.test import AsyncClient, Client, RequestFactory

from portal import event_stream as streaming
from portal import stream_access
from portal.accounts import sessions
from portal.accounts.models import User
from portal.accounts.sessions import sessions_end_others
from portal.live.listener import listener
from portal.stream_access import RETRY_SECONDS, StreamPlace
from portal.web.cluster import stream as cluster_stream
from portal.web.page_parts import StreamPace
from tests.support.rows import a_job

pytestmark = pytest.mark.django_db(transaction=True)
PASSWORD = {"username": "olga", "password": "pw"}


@pytest.fixture(autouse=True)
def hurried(monkeypatch):
    monkeypatch.setattr(streaming, "REST_FACTOR", 0)
    monkeypatch.setattr(stream_access, "CHECK_SECONDS", 0.0)


@pytest.fixture
def paths(olga, team) -> list[str]:
    job = a_job(olga, team, name="alpha")
    return [
        f"/jobs/stream?row={job.pk}",
        "/queue/stream",
        "/cluster/stream",
        "/request/stream",
        f"/jobs/{job.label}/stream",
        "/api/v1/events/stream",
    ]


def run(scenario: Callable[[], Any]) -> Any:
    async def run_scenario() -> Any:
        try:
            async with asyncio.timeout(240):
                return await scenario()
        finally:
            await listener().close()

    return asyncio.run(run_scenario())


def signed_in() -> Client:
    client = Client()
    assert client.post("/sign-in/", PASSWORD).status_code == 302
    return client


def as_async(client: Client) -> AsyncClient:
    browser = AsyncClient()
    browser.cookies = client.cookies
    return browser


@asynccontextmanager
async def opened(browser: AsyncClient, path: str):
    answer = await browser.get(path)
    assert answer.status_code == 200, (path, answer.content)
    pieces = aiter(answer.streaming_content)
    try:
        # The directive to reconnect, and for pages their parts.
        await anext(pieces)
        yield pieces
    finally:
        await pieces.aclose()
        # As the server does.
        await sync_to_async(answer.close)()


def sign_out(client: Client) -> None:
    assert client.post("/sign-out/").status_code == 302


def end_others(client: Client) -> None:
    other = signed_in()
    assert other.post("/account/browsers/end").status_code in (200, 302)


def set_password(client: Client) -> None:
    user = User.objects.get(username="olga")
    user.set_password("another password")
    user.save()
    request = RequestFactory().get("/")
    request.session, request.user = client.session.__class__(), user
    password_changed.send(sender=User, request=request, user=user)


@pytest.mark.parametrize("end", [sign_out, end_others, set_password])
def test_every_stream_ends_when_its_session_does(olga, paths, end):
    client = signed_in()

    def change() -> None:
        end(client)
        connection.close()

    async def scenario() -> list[list[bytes]]:
        async with AsyncExitStack() as stack:
            streams = [
                await stack.enter_async_context(opened(as_async(client), path)) for path in paths
            ]
            rests = [asyncio.ensure_future(_rest(stream)) for stream in streams]
            await asyncio.to_thread(change)
            return await asyncio.gather(*rests)

    assert len(run(scenario)) == len(paths)


async def _rest(pieces: Any) -> list[bytes]:
    return [piece async for piece in pieces]


def test_another_browser_of_the_user_goes_on(olga, paths, monkeypatch):
    monkeypatch.setattr(cluster_stream, "PACE", StreamPace(min_seconds=0, max_seconds=600))
    gone, stays = signed_in(), signed_in()

    def change() -> None:
        sign_out(gone)
        connection.close()

    async def scenario() -> bytes:
        async with (
            opened(as_async(gone), paths[2]) as ends,
            opened(as_async(stays), paths[2]) as on,
        ):
            await anext(on)
            await asyncio.to_thread(change)
            await _rest(ends)
            listener().fan_out(["cluster"])
            return await anext(on)

    assert b"event:" in run(scenario)


def test_without_the_bell_it_ends_before_the_next_event(olga, paths, monkeypatch):
    monkeypatch.setattr(cluster_stream, "PACE", StreamPace(min_seconds=0, max_seconds=600))
    client = signed_in()

    def change() -> None:
        Session.objects.all().delete()
        connection.close()

    async def scenario() -> list[bytes]:
        async with opened(as_async(client), paths[2]) as stream:
            await anext(stream)
            following = asyncio.ensure_future(_rest(stream))
            await asyncio.to_thread(change)
            listener().fan_out(["cluster"])
            return await following

    assert run(scenario) == []


def test_streams_of_one_session_share_its_looks(olga, paths, monkeypatch):
    monkeypatch.setattr(cluster_stream, "PACE", StreamPace(min_seconds=0, max_seconds=600))
    monkeypatch.setattr(stream_access, "CHECK_SECONDS", 3_600.0)
    looks = []
    is_session_live = streaming.is_session_live

    def counted(user_pk: int, session_key: str) -> bool:
        looks.append(session_key)
        return is_session_live(user_pk, session_key)

    monkeypatch.setattr(streaming, "is_session_live", counted)
    browser, other = as_async(signed_in()), as_async(signed_in())

    async def scenario() -> None:
        async with AsyncExitStack() as stack:
            streams = [
                await stack.enter_async_context(opened(caller, paths[2]))
                for caller in (browser, browser, browser, other)
            ]
            for stream in streams:
                await anext(stream)
            assert looks == [], "their requests have just been authenticated"
            for checks in stream_access._checks.values():
                checks.checked_at -= 3_601
            for stream in streams:
                listener().fan_out(["cluster"])
                await anext(stream)

    run(scenario)
    assert len(looks) == len(set(looks)) == 2
    gc.collect()
    assert not stream_access._checks


def test_sessions_that_end_ring_without_naming_a_session(olga, monkeypatch):
    rung = []
    monkeypatch.setattr(sessions, "ring", rung.append)
    client = signed_in()
    sessions_end_others(user=olga, except_key="")
    assert rung == [f"user:{olga.pk}"]
    assert client.session.session_key not in rung[0]


def test_a_user_has_a_limited_number_of_streams_and_then_a_clear_refusal(olga, paths, settings):
    settings.PLATFORM = replace(settings.PLATFORM, max_streams=3)
    client = signed_in()

    async def scenario() -> tuple[Any, Any, int]:
        browser = as_async(client)
        async with AsyncExitStack() as stack:
            for _ in range(3):
                await stack.enter_async_context(opened(browser, paths[1]))
            page, rest = await browser.get(paths[0]), await browser.get(paths[-1])
        # Those that ended are not counted any more.
        async with opened(browser, paths[0]):
            pass
        return page, rest

    page, rest = run(scenario)
    assert (page.status_code, page.headers["Retry-After"]) == (429, str(RETRY_SECONDS))
    assert "Too many live pages are open" in page.content.decode()
    assert (rest.status_code, rest.json()["code"]) == (429, "throttled")
    assert int(rest.headers["Retry-After"]) >= RETRY_SECONDS
    assert not any(stream_access._places.values())


def test_a_place_that_is_collected_while_another_is_taken_is_free(settings):
    first = StreamPlace(1)

    class GarbageIsCollected:
        @property
        def max_streams(self) -> int:
            first.release()
            return 2

    settings.PLATFORM = GarbageIsCollected()
    taken: list[StreamPlace] = []
    thread = Thread(target=lambda: taken.extend((StreamPlace(1), StreamPlace(1))), daemon=True)
    thread.start()
    thread.join(300)
    assert not thread.is_alive(), "it waits for its own lock"
    for place in taken:
        place.release()
    assert len(taken) == 2
