"""The stream of events and the long poll: in order, with replay, only what the caller may see, and
without a database connection held."""

from __future__ import annotations

import asyncio
import json
import threading
from contextlib import aclosing
from datetime import timedelta

import pytest
from django.core.cache import cache
from django.db import connection
from django.utils import timezone
from rest_framework.test import APIClient

from agents.contract.message import verbatim
from portal.accounts.models import ApiToken, Membership, User
from portal.api.jobs import event_stream, long_poll
from portal.api.jobs.event_stream import EventSubscriber, messages
from portal.api.jobs.long_poll import wait_for_event
from portal.audit.models import Event
from portal.audit.transitions import event_record
from portal.inventory.models import Node
from portal.jobs.models import Job
from portal.live.listener import _listeners, listener
from tests.support.rows import a_job, a_node, a_project, a_user

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def hurried(monkeypatch):
    """The same loops without their waits."""
    cache.clear()
    monkeypatch.setattr(event_stream, "PACE_SECONDS", 0)
    monkeypatch.setattr(event_stream, "HEARTBEAT_SECONDS", 0.05)
    monkeypatch.setattr(long_poll, "CHECK_SECONDS", 0.05)


@pytest.fixture
def job() -> Job:
    a_node("n1")
    olga = a_user("olga")
    return a_job(olga, a_project("vision", olga))


def of(user: User, *, job: int | None = None, since: int = 0) -> EventSubscriber:
    return EventSubscriber(user.pk, None, job, since)


async def _messages(subscriber: EventSubscriber, wanted: int, change=None) -> list[str]:
    found: list[str] = []
    async with aclosing(messages(subscriber)) as stream:
        async for message in stream:
            if message.startswith("id:"):
                found.append(message)
            elif message.startswith(": beat") and change:
                await asyncio.to_thread(_closing, change)
                change = None
            elif message.startswith(": beat"):
                break
            if len(found) == wanted:
                break
    await listener().close()
    return found


def stream_messages(
    subscriber: EventSubscriber, wanted: int = 999, change=None
) -> list[tuple[int, dict]]:
    """(id, data) of what is sent until `wanted` have come or nothing is left; after the first beat
    the change is made."""
    lines = [m.splitlines() for m in asyncio.run(_messages(subscriber, wanted, change))]
    return [(int(one[0][4:]), json.loads(one[2][6:])) for one in lines]


def _closing(change) -> None:
    try:
        change()
    finally:
        connection.close()


def ids(job: Job) -> list[int]:
    return list(Event.objects.filter(job=job).order_by("id").values_list("id", flat=True))


def test_a_stream_replays_what_was_missed_and_goes_on(job):
    wanted = len(ids(job)) + 1
    found = stream_messages(
        of(job.owner), wanted, lambda: event_record(job, "later", verbatim("it happened"))
    )
    assert [number for number, _ in found] == ids(job)
    assert found[-1][1]["code"] == "later"
    assert found[0][1]["id"] == found[0][0]


def test_a_client_that_comes_back_gets_only_what_it_has_not_seen(job):
    first, *rest = ids(job)
    assert [number for number, _ in stream_messages(of(job.owner, since=first))] == rest


def test_an_event_that_was_numbered_earlier_but_committed_later_is_not_lost(job):
    subscriber = of(job.owner)
    late = event_record(job, "late", verbatim("numbered first"))
    number = late.pk
    late.delete()
    event_record(job, "early", verbatim("committed first"))

    def commits() -> None:
        Event.objects.create(
            id=number, at=job.submitted_at, noun="job", noun_id="1", job=job, code="late", actor="x"
        )

    found = stream_messages(subscriber, len(ids(job)) + 1, commits)
    assert [data["code"] for _, data in found][-2:] == ["early", "late"]
    assert len({number for number, _ in found}) == len(found)


def test_nobody_is_told_of_another_project(job):
    ott = a_user("ott")
    a_project("speech", ott)
    assert stream_messages(of(ott)) == []
    root = a_user("root", is_superuser=True)
    assert [number for number, _ in stream_messages(of(root))] == ids(job)


def test_a_stream_of_one_job_tells_of_no_other(job):
    other = a_job(job.owner, job.project)
    assert [number for number, _ in stream_messages(of(job.owner, job=other.pk))] == ids(other)


def test_who_leaves_the_project_hears_nothing_more(job):
    def leave() -> None:
        Membership.objects.filter(user=job.owner).delete()
        event_record(job, "secret", verbatim("after leaving"))

    assert "secret" not in [
        data["code"] for _, data in stream_messages(of(job.owner), change=leave)
    ]


def test_a_stream_ends_when_its_caller_may_not_sign_in(job):
    User.objects.filter(pk=job.owner_id).update(is_active=False)
    assert stream_messages(of(job.owner)) == []


def test_a_stream_is_opened_with_a_session_or_a_token_and_says_what_it_is(job):
    client = APIClient()
    client.force_login(job.owner)
    answer = client.get(f"/api/v1/events/stream?job={job.label}&since=0")
    assert (answer.status_code, answer["Content-Type"]) == (200, "text/event-stream")
    assert answer["Cache-Control"] == "no-store"
    assert client.get("/api/v1/events/stream?job=J-999").status_code == 404
    assert client.get("/api/v1/events/stream?since=-1").status_code == 400


@pytest.mark.parametrize("how", ["since", "header"])
def test_what_came_after_an_event_that_is_not_kept_is_not_told_as_if_it_were_all(job, how):
    client = APIClient()
    client.force_login(job.owner)

    def status(number: int) -> int:
        query, headers = ({"since": number}, {}) if how == "since" else ({}, {})
        headers = {"Last-Event-ID": str(number)} if how == "header" else headers
        return client.get("/api/v1/events/stream", query, headers=headers).status_code

    first, last = ids(job)[0], ids(job)[-1]
    assert [status(number) for number in (0, first, last, last + 1)] == [200, 200, 200, 410]
    Event.objects.filter(pk=first).delete()
    event_record(job, "later", verbatim("it happened"))
    Event.objects.filter(pk__lte=last).delete()
    assert [status(number) for number in (first, last)] == [410, 200]


@pytest.mark.parametrize("ends_in", [None, timedelta(days=1)])
def test_a_stream_lives_as_long_as_its_token(job, ends_in):
    token, _ = ApiToken.objects.create(user=job.owner, name="watch", expiry=ends_in)
    subscriber = EventSubscriber(job.owner_id, token.pk, None, ids(job)[-1])

    def end_and_record() -> None:
        ApiToken.objects.update(expiry=timezone.now())
        event_record(job, "secret", verbatim("after its end"))

    async def kinds() -> list[str]:
        found: list[str] = []
        async with aclosing(messages(subscriber)) as stream:
            async for message in stream:
                found.append(message.partition(":")[0])
                if len(found) == 3:
                    await asyncio.to_thread(_closing, end_and_record)
        await listener().close()
        return found

    # The pause that it sets, and two beats; after the token's end, nothing.
    assert asyncio.run(kinds()) == ["retry", "", ""]


def test_a_stream_ends_when_the_server_goes_down(job, monkeypatch):
    monkeypatch.setattr(event_stream, "HEARTBEAT_SECONDS", 60)

    async def until_it_ends() -> list[str]:
        found: list[str] = []
        async with aclosing(messages(of(job.owner, since=ids_seen))) as stream:
            async for part in stream:
                found.append(part)
                asyncio.get_running_loop().call_later(0.05, listener().drain)
        await listener().close()
        return found

    ids_seen = ids(job)[-1]
    assert asyncio.run(until_it_ends()) == ["retry: 1000\n\n"]


def test_a_long_poll_answers_when_the_server_goes_down(job, monkeypatch):
    def drains(row: Job) -> int:
        if not drained:
            (ear,) = _listeners.values()
            threading.Timer(0.1, ear.drain_soon).start()
        drained.append(row.pk)
        return real(row)

    drained: list[int] = []
    real = long_poll.newest_event_id
    monkeypatch.setattr(long_poll, "CHECK_SECONDS", 60)
    monkeypatch.setattr(long_poll, "newest_event_id", drains)
    wait_for_event(job, None, 3600)
    assert drained, "it answered without a look"


def test_a_long_poll_answers_at_once_where_there_is_something_new(job):
    client = APIClient()
    client.force_login(job.owner)
    address = f"/api/v1/jobs/{job.label}"
    newest = client.get(address).json()["last_event"]
    assert newest == ids(job)[-1]
    assert client.get(address, {"wait": 30, "since": newest - 1}).json()["last_event"] == newest
    assert client.get(address, {"wait": 31}).status_code == 400


def test_a_long_poll_is_woken_by_an_event(job, monkeypatch):
    looks = []
    real = long_poll.newest_event_id

    def look(row: Job) -> int:
        looks.append(row.pk)
        if len(looks) == 2:
            event_record(row, "later", verbatim("it happened"))
        return real(row)

    monkeypatch.setattr(long_poll, "newest_event_id", look)
    client = APIClient()
    client.force_login(job.owner)
    before = ids(job)[-1]
    answer = client.get(f"/api/v1/jobs/{job.label}", {"wait": 30}).json()
    assert answer["last_event"] > before and len(looks) >= 2


def test_a_long_poll_of_a_job_that_is_over_does_not_wait(job, monkeypatch):
    monkeypatch.setattr(long_poll, "newest_event_id", None)
    Node.objects.update(schedulable=False)
    waiting = a_job(job.owner, job.project)
    client = APIClient()
    client.force_login(job.owner)
    assert client.post(f"/api/v1/jobs/{waiting.label}/cancel").status_code == 200
    answer = client.get(f"/api/v1/jobs/{waiting.label}", {"wait": 30})
    assert answer.json()["status"] == "cancelled"
