"""Calls of a service with a canary: who answers them, what is counted, and what stays open."""

from __future__ import annotations

import asyncio

import pytest

from portal.accounts.models import Project, User
from portal.apps.threads import run_in_thread
from portal.job_services.models import JobService, ServiceCopy
from portal.job_services.selectors import busyness_of
from portal.job_services.services import service_change, values_of
from portal.job_services.values import CanaryValues
from portal.submission.limits import request_limits
from tests.support.app_calls import (
    body_of,
    http_call,
    saying,
    websocket_call,
)
from tests.support.app_visits import handshake_answer, served_apps
from tests.support.rows import a_node, a_project, a_user, settle
from tests.support.service_calls import Copies, answer, host_of, token_of
from tests.support.service_rows import a_round, a_service, check_all, copies_of

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def served():
    with served_apps():
        yield


@pytest.fixture
def olga() -> User:
    return a_user("olga")


@pytest.fixture
def team(olga) -> Project:
    return a_project("vision", olga)


@pytest.fixture
def both(olga, team) -> tuple[JobService, JobService]:
    """A service and its canary, each with one copy that takes calls."""
    node = a_node("n1", gpus=2)
    rows = a_service(olga, team), a_service(olga, team, "next")
    for row in rows:
        a_round(row)
    settle(node)
    assert check_all() == 2
    return rows


def give(service: JobService, canary: JobService, percent: int) -> None:
    row = JobService.objects.get(pk=service.pk)
    service_change(
        service=row,
        actor=row.owner,
        values=values_of(row),
        canary=CanaryValues(canary.label, percent),
        limits=request_limits(),
    )


def serving(service: JobService, canary: JobService, of_canary) -> Copies:
    (stable,), (fresh,) = copies_of(service), copies_of(canary)
    return Copies({stable.port: saying(answer("stable")), fresh.port: of_canary})


def test_calls_are_answered_and_counted_by_version(olga, both):
    service, canary = both
    token = token_of(olga)
    broken = saying(answer("canary", status="500 Internal Server Error"))

    def calls(count: int):
        return [http_call(headers=[host_of(service), token]) for _ in range(count)]

    async def work(apps):
        said = [body_of(await call.run(apps)) for call in calls(3)]
        async with asyncio.timeout(20):
            while (await run_in_thread(busyness_of, [canary.pk]))[canary.pk].errors < 3:
                await asyncio.sleep(0.02)
        return said

    give(service, canary, 100)
    assert serving(service, canary, broken).run(work) == [b"canary"] * 3
    busyness = busyness_of([service.pk, canary.pk])
    assert busyness[canary.pk].calls_per_second == pytest.approx(3 / 60)
    assert (busyness[service.pk].errors, busyness[service.pk].calls_per_second) == (0, 0)
    ServiceCopy.objects.filter(service=canary).update(ready_attempt=0)
    said = serving(service, canary, broken).replies(*calls(2))
    assert [body_of(each) for each in said] == [b"stable"] * 2, "none of its copies is ready"
    check_all(seconds=6)
    give(service, canary, 0)
    said = serving(service, canary, broken).replies(*calls(2))
    assert [body_of(each) for each in said] == [b"stable"] * 2


def test_what_is_open_at_a_canary_stays_there(olga, both):
    service, canary = both
    token = token_of(olga)
    give(service, canary, 100)
    may_speak = asyncio.Event()

    async def speaking(reader, writer):
        head = await reader.readuntil(b"\r\n\r\n")
        if b"upgrade: websocket" not in head.lower():
            writer.write(answer("canary"))
            await writer.drain()
            return
        writer.write(handshake_answer(head))
        await writer.drain()
        await may_speak.wait()
        writer.write(b"\x81\x05hello")
        await writer.drain()
        await reader.read()

    async def work(apps):
        socket = websocket_call(headers=[host_of(service), token])
        held = asyncio.create_task(socket.run(apps))
        opened = await socket.next()
        await run_in_thread(give, service, canary, 0)
        # This process reads the new percentage at the ring, or within a second.
        said = b"canary"
        async with asyncio.timeout(20):
            while said == b"canary":
                said = body_of(await http_call(headers=[host_of(service), token]).run(apps))
        may_speak.set()
        spoken = await socket.next()
        socket.sent.put_nowait({"type": "websocket.disconnect", "code": 1000})
        await held
        return opened["type"], said, spoken.get("text")

    found = serving(service, canary, speaking).run(work)
    assert found == ("websocket.accept", b"stable", "hello")
