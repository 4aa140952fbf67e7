"""Who reaches the app of a job, before and after rights change; tickets and cookies."""

import asyncio

import pytest
from django.contrib.sessions.models import Session
from django.test import Client, override_settings
from django.utils import timezone

from portal.accounts.models import Membership, Project, Role, User
from portal.accounts.sessions import is_session_live
from portal.apps.models import AppVisit
from portal.jobs.models import Job
from portal.jobs.services import job_cancel
from portal.live.listener import listener
from tests.support.app_calls import (
    body_of,
    header_of,
    http_call,
    saying,
    status_of,
    websocket_call,
)
from tests.support.app_visits import (
    ANSWER,
    DOMAIN,
    answers_of,
    apps_before,
    cookie_of,
    entering,
    handshake_answer,
    host_of,
    served_apps,
    signed_in,
    statuses,
    statuses_after,
    ticket_of,
)
from tests.support.examples import first_quick
from tests.support.rows import a_job, a_node, a_project, a_user, settle

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
    return a_node("n1", gpus=2)


@pytest.fixture
def job(olga, team, node) -> Job:
    return running(olga, team, node)


def running(user, project, node, **fields) -> Job:
    row = a_job(user, project, apps=["web:8080"], **fields)
    settle(node)
    row.refresh_from_db()
    assert row.status == "running"
    return row


def test_from_open_to_the_app_and_only_its_members(olga, team, job):
    vera, ott, root = a_user("vera"), a_user("ott"), a_user("root", is_superuser=True)
    Membership.objects.create(project=team, user=vera, role=Role.VIEWER)
    a_project("speech", ott)
    mia = a_user("mia")
    Membership.objects.create(project=team, user=mia, role=Role.MEMBER)
    path = f"/jobs/{job.label}/apps/web/open"
    opened = {user: signed_in(user).post(path).status_code for user in (olga, mia, vera, ott, root)}
    assert opened == {olga: 200, mia: 200, vera: 403, ott: 404, root: 403}
    assert signed_in(olga).post(f"/jobs/{job.label}/apps/other/open").status_code == 404
    assert Client(enforce_csrf_checks=True).post(path).status_code == 403

    heard: list[bytes] = []
    cookie = cookie_of(job, signed_in(mia))
    call = http_call("/x?y", headers=[host_of(job), cookie, ("cookie", "a=1; sessionid=s")])
    (said,) = answers_of(saying(ANSWER, hears=heard), call)
    assert (status_of(said), body_of(said)) == (200, b"ok")
    head = heard[0].decode().lower()
    assert "cookie: a=1\r\n" in head
    assert f"host: web--j{job.pk}.{DOMAIN}\r\n" in head
    assert "x-forwarded-for: 192.0.2.7\r\n" in head
    assert "x-tessera-caller: " in head
    assert "tessera-app" not in head
    assert "sessionid" not in head


def test_a_notebook_is_its_owners_alone(olga, team, node):
    mia = a_user("mia")
    Membership.objects.create(project=team, user=mia, role=Role.ADMIN)
    notebook = running(olga, team, node, kind="notebook")
    path = f"/jobs/{notebook.label}/apps/web/open"
    assert signed_in(mia).post(path).status_code == 403
    assert signed_in(olga).post(path).status_code == 200


def test_a_ticket_works_once_in_time_and_for_its_app(olga, team, node, job):
    client = signed_in(olga)
    other = running(olga, team, node)
    used, late, elsewhere = (ticket_of(client, job) for _ in range(3))
    AppVisit.objects.filter(pk=AppVisit.objects.order_by("pk")[1].pk).update(
        ticket_expires_at=timezone.now()
    )
    calls = (entering(job, used), entering(job, used), entering(job, late))
    assert statuses(*calls) == [303, 401, 401]
    assert statuses(entering(other, elsewhere), entering(job, "forged")) == [401, 401]
    enter = http_call("/_tessera/enter", headers=[host_of(job)], query=f"ticket={elsewhere}")
    assert statuses(enter, entering(job, "")) == [405, 401]
    # A ticket and a digest are no cookies.
    row = AppVisit.objects.latest("pk")
    for value in (elsewhere, row.ticket_digest, row.cookie_digest or "x"):
        call = http_call(headers=[host_of(job), ("cookie", f"tessera-app={value}")])
        assert statuses(call) == [401]


def test_a_cookie_opens_one_app_of_one_job(olga, team, node, job):
    other = running(olga, team, node)
    cookie = cookie_of(job, signed_in(olga))
    found = statuses(
        http_call(headers=[host_of(job), cookie]),
        http_call(headers=[host_of(other), cookie]),
        http_call(headers=[host_of(job, "lab"), cookie]),
        http_call(headers=[host_of(job)]),
        http_call(headers=[("host", f"anything.{DOMAIN}"), cookie]),
        websocket_call(headers=[host_of(job)]),
    )
    assert found == [200, 401, 401, 401, 404, 401]


def _membership(olga, team, job):
    Membership.objects.filter(user=olga).delete()


def _viewer(olga, team, job):
    Membership.objects.filter(user=olga).update(role=Role.VIEWER)


def _sign_out(olga, team, job):
    Session.objects.all().delete()


def _password(olga, team, job):
    olga.set_password("another long one")
    olga.save()


def _deactivation(olga, team, job):
    User.objects.filter(pk=olga.pk).update(is_active=False)


def _end(olga, team, job):
    job_cancel(job=job, actor="olga")


@pytest.mark.parametrize(
    "change", first_quick(_membership, _viewer, _sign_out, _password, _deactivation, _end)
)
def test_what_is_open_ends_with_each_right_and_nothing_new_begins(change, olga, team, job):
    client = signed_in(olga)
    headers = [host_of(job), cookie_of(job, client)]
    assert is_session_live(olga.pk, client.session.session_key)
    assert statuses_after(headers, lambda: change(olga, team, job)) == [401, 401]


def test_a_ticket_that_a_page_of_another_origin_plants_signs_nobody_in(olga, job):
    """Mallory's ticket, handed in by the browser of somebody else: they would work as mallory."""
    ticket = ticket_of(signed_in(olga), job)
    own_page = f"http://web--j{job.pk}.{DOMAIN}"
    origins = ("http://evil--j9.apps.test", own_page, "null", "https://testserver", "")
    found = statuses(*[entering(job, ticket, origin=each) for each in origins])
    assert found == [401] * len(origins)
    assert statuses(entering(job, ticket)) == [303]


def test_pages_of_other_origins_do_not_use_the_cookie(olga, job):
    name, cookie = host_of(job), cookie_of(job, signed_in(olga))
    own, other = f"http://{name[1]}", f"http://evil--j9.{DOMAIN}"
    found = statuses(
        http_call(headers=[name, cookie, ("origin", own)]),
        http_call(headers=[name, cookie, ("origin", other)], method="POST"),
        http_call(headers=[name, cookie, ("origin", "null")], method="POST"),
        websocket_call(headers=[name, cookie, ("origin", other)]),
        http_call(headers=[name, cookie, ("sec-fetch-site", "same-site")]),
        http_call(
            headers=[name, cookie, ("sec-fetch-site", "cross-site"), ("sec-fetch-mode", "navigate")]
        ),
        http_call(
            headers=[
                *(name, cookie, ("sec-fetch-site", "same-site"), ("sec-fetch-mode", "navigate")),
                ("sec-fetch-dest", "iframe"),
            ]
        ),
    )
    assert found == [200, 403, 403, 403, 403, 200, 403]


def test_a_call_that_waits_while_the_portal_restarts_is_told_to_come_again(olga, job):
    headers = [host_of(job), cookie_of(job, signed_in(olga))]

    async def restart(reader, writer):
        await reader.readuntil(b"\r\n\r\n")
        listener().drain()
        await reader.read()
        writer.close()

    (said,) = answers_of(restart, http_call(headers=headers), look_seconds=2)
    assert status_of(said) == 503


def test_before_a_restart_requests_end_sockets_close_and_new_calls_come_again(olga, job):
    headers = [host_of(job), cookie_of(job, signed_in(olga))]
    asked, may_answer = asyncio.Event(), asyncio.Event()

    async def slow(reader, writer):
        head = await reader.readuntil(b"\r\n\r\n")
        if b"upgrade: websocket" in head.lower():
            writer.write(handshake_answer(head))
            await reader.read()
        else:
            asked.set()
            await may_answer.wait()
            writer.write(ANSWER)
        writer.close()

    async def scenario():
        async with apps_before(slow) as apps:
            page, socket = http_call(headers=headers), websocket_call(headers=headers)
            running = [
                asyncio.ensure_future(apps(call.scope, call.sent.get, call.said.put))
                for call in (page, socket)
            ]
            assert (await socket.next())["type"] == "websocket.accept"
            await asked.wait()
            finishing = asyncio.ensure_future(apps.finish_calls())
            assert (await socket.next())["code"] == 1012
            late = await http_call(headers=headers).run(apps)
            assert (status_of(late), header_of(late, "retry-after")) == (503, ["1"])
            assert not finishing.done()
            may_answer.set()
            await finishing
            await asyncio.gather(*running)
            assert (await page.next())["status"] == 200

    asyncio.run(scenario())


def test_a_restart_does_not_wait_for_a_websocket_that_the_app_has_not_answered(olga, job):
    headers, asked = [host_of(job), cookie_of(job, signed_in(olga))], asyncio.Event()

    async def silent(reader, writer):
        await reader.readuntil(b"\r\n\r\n")
        asked.set()
        await reader.read()
        writer.close()

    async def scenario():
        async with apps_before(silent) as apps:
            opening = asyncio.ensure_future(websocket_call(headers=headers).run(apps))
            await asked.wait()
            finishing = asyncio.ensure_future(apps.finish_calls())
            said = await opening
            assert (status_of(said), header_of(said, "retry-after")) == (503, ["1"])
            await finishing

    asyncio.run(scenario())


def test_a_request_with_two_ends_or_two_hosts_is_refused(olga, job):
    name, cookie = host_of(job), cookie_of(job, signed_in(olga))
    two = [("content-length", "4"), ("transfer-encoding", "chunked")]
    found = statuses(
        http_call(headers=[name, cookie, *two], method="POST"),
        http_call(headers=[name, ("host", "testserver"), cookie]),
        http_call(headers=[name, cookie], method="TRACE"),
        http_call("/a b", headers=[name, cookie]),
    )
    assert found == [400, 404, 405, 400]


def test_production_sends_browsers_to_https_and_binds_the_cookie_to_it(olga, job):
    client = signed_in(olga)
    ticket = ticket_of(client, job)
    proxy = ("HTTP_X_FORWARDED_PROTO", "https")
    with override_settings(SECURE_SSL_REDIRECT=True, SECURE_PROXY_SSL_HEADER=proxy):
        call = entering(job, ticket)
        redirected = http_call("/a", headers=[host_of(job)], query="b=c")
        (plain,) = answers_of(saying(ANSWER), redirected)
        assert status_of(plain) == 308
        assert header_of(plain, "location") == [f"https://web--j{job.pk}.{DOMAIN}/a?b=c"]
        call.scope["headers"].append((b"x-forwarded-proto", b"https"))
        (said,) = answers_of(saying(ANSWER), call)
    (cookie,) = header_of(said, "set-cookie")
    assert cookie.startswith("__Host-tessera-app=")
    assert cookie.endswith("; Secure")


def test_without_a_domain_nothing_opens_and_the_page_says_what_to_set(olga, job):
    client = signed_in(olga)
    page = client.get(f"/jobs/{job.label}/").content.decode()
    assert f"web--j{job.pk}.{DOMAIN}" in page
    assert f"/jobs/{job.label}/apps/web/open" in page
    with served_apps(domain=""):
        page = client.get(f"/jobs/{job.label}/").content.decode()
        assert "TESSERA_APPS_DOMAIN" in page
        assert client.post(f"/jobs/{job.label}/apps/web/open").status_code == 404
