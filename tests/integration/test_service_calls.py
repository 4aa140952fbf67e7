"""Calls of services: who may, which copy gets them, how they wait, and what is sent once more."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest
from django.test import Client

from portal.accounts.models import Membership, Project, Role, User
from portal.apps.caller_header import caller_header
from portal.apps.threads import run_in_thread
from portal.job_services.models import JobService, ServiceLoad
from portal.job_services.services import service_end
from portal.job_services.values import unused_port
from tests.support.app_calls import (
    body_of,
    header_of,
    http_call,
    saying,
    silent,
    status_of,
)
from tests.support.app_visits import DOMAIN, served_apps
from tests.support.rows import a_node, a_project, a_user, settle
from tests.support.service_calls import (
    Copies,
    answer,
    hangs_up,
    host_of,
    token_of,
)
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
def node():
    return a_node("n1", gpus=4)


@pytest.fixture
def service(olga, team, node) -> JobService:
    """With three copies that take calls."""
    row = a_round(a_service(olga, team, min_copies=3, max_copies=3))
    settle(node)
    assert check_all() == 3
    return row


def serving(service: JobService, **copies) -> Copies:
    """`copies`: handlers of the first, second and third copy; else they say their number."""
    ports = [copy.port for copy in copies_of(service)]
    handlers = {port: saying(answer(str(n))) for n, port in enumerate(ports, 1)}
    for name, handler in copies.items():
        port = ports[("first", "second", "third").index(name)]
        handlers[port] = handler
        if handler is None:
            del handlers[port]
    return Copies(handlers)


def test_members_call_a_service_and_nobody_else_does(olga, team, service):
    vera, ott, root = a_user("vera"), a_user("ott"), a_user("root", is_superuser=True)
    Membership.objects.create(project=team, user=vera, role=Role.VIEWER)
    a_project("speech", ott)
    mia = a_user("mia")
    Membership.objects.create(project=team, user=mia, role=Role.MEMBER)
    tokens = {user: token_of(user) for user in (olga, mia, vera, ott, root)}
    copies = serving(service)

    def statuses(*headers):
        calls = [http_call(headers=[*headers, token]) for token in tokens.values()]
        return [status_of(each) for each in copies.replies(*calls)]

    assert statuses(host_of(service)) == [200, 200, 404, 404, 404]
    assert statuses(host_of(service, "other")) == [404] * 5
    assert statuses(("host", f"llm--s999.{DOMAIN}")) == [404] * 5
    assert status_of(copies.replies(http_call(headers=[host_of(service)]))[0]) == 401
    service_end(service=service, actor=olga)
    assert statuses(host_of(service)) == [404] * 5


def test_a_browser_opens_a_service_from_its_page(olga, team, service):
    client = Client()
    client.force_login(olga)
    page = client.post(f"/services/{service.label}/open")
    address = page.context["address"]
    assert page.status_code == 200
    assert address == f"http://llm--s{service.pk}.{DOMAIN}/_tessera/enter"
    copies = serving(service)
    form = f"ticket={page.context['ticket']}".encode()
    headers = [host_of(service), ("origin", "http://testserver")]
    enter = http_call("/_tessera/enter", method="POST", headers=headers, body=form)
    (entered,) = copies.replies(enter)
    assert status_of(entered) == 303
    cookie = ("cookie", header_of(entered, "set-cookie")[0].partition(";")[0])
    said = copies.replies(
        http_call(headers=[host_of(service), cookie]),
        http_call(headers=[("host", f"llm--j1.{DOMAIN}"), cookie]),
    )
    assert [status_of(each) for each in said] == [200, 401]
    client.post("/sign-out/")
    (gone,) = copies.replies(http_call(headers=[host_of(service), cookie]))
    assert status_of(gone) == 401
    vera = a_user("vera")
    Membership.objects.create(project=team, user=vera, role=Role.VIEWER)
    other = Client()
    other.force_login(vera)
    assert other.post(f"/services/{service.label}/open").status_code == 403


def test_calls_go_to_the_copy_with_the_fewest_and_get_around_those_that_fail(olga, service):
    """One after another, as what they share takes longer than they do."""
    token = token_of(olga)
    check_fewest(service, token)
    check_unreachable(service, token)
    check_repeated(service, token)


def check_fewest(service, token):
    async def work(apps):
        slow = http_call(headers=[host_of(service), token])
        held = asyncio.create_task(slow.run(apps))
        while not copies.opened:
            await asyncio.sleep(0.01)
        found = []
        for _ in range(4):
            call = http_call(headers=[host_of(service), token])
            found.append(body_of(await call.run(apps)))
        held.cancel()
        await asyncio.gather(held, return_exceptions=True)
        return found

    copies = serving(service, first=silent)
    ports = [copy.port for copy in copies_of(service)]
    found = copies.run(work)
    assert copies.opened[ports[0]] == 1
    assert Counter(found) == {b"2": 2, b"3": 2}, "the two that have none, in turn"


def check_unreachable(service, token):
    """It has seen nothing of a call, so even a POST goes to another one."""
    copies = serving(service, first=None, second=None)
    calls = []
    for _ in range(4):
        length = ("content-length", "2")
        calls.append(
            http_call(method="POST", headers=[host_of(service), token, length], body=b"hi")
        )
    assert [body_of(each) for each in copies.replies(*calls)] == [b"3"] * 4
    assert sorted(copies.opened.values()) == [1, 1, 4], "they are left alone for a while"


def check_repeated(service, token):
    """What may have done something is not sent once more, and nothing is sent a third time."""
    for method, status in (("GET", 200), ("POST", 502)):
        copies = serving(service, first=hangs_up)
        calls = [http_call(method=method, headers=[host_of(service), token]) for _ in range(3)]
        said = [status_of(each) for each in copies.replies(*calls)]
        assert sorted(said) == sorted([200, 200, status])
    copies = serving(service, first=hangs_up, second=hangs_up, third=hangs_up)
    (said,) = copies.replies(http_call(headers=[host_of(service), token]))
    assert (status_of(said), sum(copies.opened.values())) == (502, 2)


def test_the_end_of_a_service_leaves_it_the_calls_that_it_has(olga, team, service):
    mia = a_user("mia")
    Membership.objects.create(project=team, user=mia, role=Role.MEMBER)
    tokens = [token_of(olga), token_of(mia)]
    may_answer = asyncio.Event()

    async def late(reader, writer):
        await reader.readuntil(b"\r\n\r\n")
        await may_answer.wait()
        writer.write(answer("late"))
        await writer.drain()

    def end() -> None:
        service_end(service=service, actor=olga)
        Membership.objects.filter(user=mia).delete()

    async def work(apps):
        calls = [http_call(headers=[host_of(service), token]) for token in tokens]
        of_olga, of_mia = (asyncio.create_task(call.run(apps)) for call in calls)
        while copies.opened.total() < 2:
            await asyncio.sleep(0.01)
        await run_in_thread(end)
        # Both are looked up together: one who lost the right ends, the other one goes on.
        lost = await of_mia
        fresh = await http_call(headers=[host_of(service), tokens[0]]).run(apps)
        may_answer.set()
        return [status_of(lost), status_of(fresh), body_of(await of_olga)]

    copies = serving(service, first=late, second=late, third=late)
    assert copies.run(work) == [401, 404, b"late"]


def test_calls_wait_for_the_first_copy_and_have_it_started(olga, team, node, monkeypatch):
    service = a_service(olga, team, min_copies=0, max_copies=1)
    token = token_of(olga)
    check_waits_in_vain(service, token)
    check_hung_up(service, token)
    monkeypatch.setattr("portal.apps.service_pools.MAX_WAITING", 2)
    check_too_many(service, token)
    order = []

    def signed(**facts):
        order.append("signed")
        return caller_header(**facts)

    monkeypatch.setattr("portal.apps.application.caller_header", signed)

    def start() -> None:
        order.append("started")
        a_round(service)
        settle(node)
        check_all(seconds=2)

    async def work(apps):
        call = http_call(headers=[host_of(service), token])
        held = asyncio.create_task(call.run(apps))
        waits = ServiceLoad.objects.filter(service=service, waiting=1).exists
        async with asyncio.timeout(20):
            while not await run_in_thread(waits):
                await asyncio.sleep(0.02)
        await run_in_thread(start)
        return await held

    copies = Copies({unused_port(set(), service.pk * 64): saying(answer("up"))})
    said = copies.run(work)
    assert (status_of(said), body_of(said)) == (200, b"up")
    assert order == ["started", "signed"], "who calls is said when the copy can hear it"


def check_waits_in_vain(service, token):
    copies = Copies({}, wait_seconds=0.2)
    (said,) = copies.replies(http_call(headers=[host_of(service), token]))
    assert status_of(said) == 503
    assert header_of(said, "retry-after") == ["10"]
    assert service.label in body_of(said).decode()


def check_hung_up(service, token):
    """It waits no more, and no copy is started or called for it."""

    async def work(apps):
        call = http_call(headers=[host_of(service), token])
        held = asyncio.create_task(call.run(apps))
        waits = ServiceLoad.objects.filter(service=service, waiting=1).exists
        async with asyncio.timeout(20):
            while not await run_in_thread(waits):
                await asyncio.sleep(0.02)
        call.sent.put_nowait({"type": "http.disconnect"})
        said = await held
        async with asyncio.timeout(20):
            while await run_in_thread(waits):
                await asyncio.sleep(0.02)
        return said

    assert status_of(Copies({}).run(work)) == 401, "as nobody hears it"


def check_too_many(service, token):
    async def work(apps):
        calls = [http_call(headers=[host_of(service), token]) for _ in range(3)]
        tasks = [asyncio.create_task(call.run(apps)) for call in calls]
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        return [status_of(task.result()) for task in done]

    assert Copies({}).run(work) == [503]
