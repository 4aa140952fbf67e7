"""Guests of apps and tokens for apps: who reaches what by them, and how it ends."""

import asyncio
import json
from datetime import timedelta
from functools import partial

import pytest
from django.conf import settings
from django.db import InterfaceError, OperationalError
from django.test import Client
from django.utils import timezone

from portal.accounts.models import Membership, Project, Role, TokenScope, User
from portal.accounts.people import user_activate, user_deactivate
from portal.accounts.services import token_create
from portal.apps.guests import app_guest_add, app_guest_remove, guest_apps
from portal.apps.models import AppToken
from portal.apps.token_usage import TokenUsage, token_usage_write
from portal.apps.tokens import app_token_create, app_token_revoke, token_access
from portal.audit.models import AuditEntry
from portal.errors import Refused
from portal.jobs.models import Job
from portal.token_buckets import TokenBuckets
from tests.support.app_calls import Call, body_of, header_of, http_call, saying, status_of
from tests.support.app_visits import (
    ANSWER,
    DOMAIN,
    answers_of,
    cookie_of,
    host_of,
    served_apps,
    signed_in,
    statuses,
    statuses_after,
)
from tests.support.rows import a_job, a_node, a_project, a_user, settle

pytestmark = pytest.mark.django_db(transaction=True)
DAY = timedelta(days=1)


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
def gus() -> User:
    """Somebody of another project."""
    gus = a_user("gus")
    a_project("speech", gus)
    return gus


@pytest.fixture
def job(olga, team) -> Job:
    return running(olga, team, kind="notebook")


def running(user, project, **fields) -> Job:
    node = a_node("n1", gpus=2)
    row = a_job(user, project, apps=["web:8080", "board:6006"], **fields)
    settle(node)
    row.refresh_from_db()
    assert row.status == "running"
    return row


def with_token(job: Job, text: str, app: str = "web", **options) -> Call:
    return http_call(headers=[host_of(job, app), ("authorization", f"Bearer {text}")], **options)


def test_a_guest_opens_one_app_and_sees_nothing_else_of_the_job(olga, gus, job):
    browser = signed_in(gus)
    assert browser.post(f"/jobs/{job.label}/apps/web/open").status_code == 404
    app_guest_add(job=job, app="web", username="gus", actor=olga)
    app_guest_add(job=job, app="web", username="gus", actor=olga)
    assert [guest.app for guest in guest_apps(gus)] == ["web"]
    assert f"web--j{job.pk}.{DOMAIN}" in browser.get("/apps/").content.decode()
    cookie = cookie_of(job, browser)
    assert statuses(http_call(headers=[host_of(job), cookie])) == [200]
    assert browser.post(f"/jobs/{job.label}/apps/board/open").status_code == 404
    assert browser.get(f"/jobs/{job.label}/").status_code == 404
    lines = AuditEntry.objects.filter(action="app_guest_add")
    assert [(line.actor, line.after) for line in lines] == [("olga", {"app": "web", "user": "gus"})]


def test_what_a_guest_has_open_ends_when_the_app_is_taken_back(olga, gus, job):
    app_guest_add(job=job, app="web", username="gus", actor=olga)
    headers = [host_of(job), cookie_of(job, signed_in(gus))]
    assert statuses_after(
        headers, lambda: app_guest_remove(job=job, app="web", username="gus", actor=olga)
    ) == [401, 401]
    assert guest_apps(gus) == []


def test_only_a_working_owner_shares_and_a_share_ends_with_their_place(olga, team, gus, job):
    mia, ada = a_user("mia"), a_user("ada")
    Membership.objects.create(project=team, user=mia, role=Role.MEMBER)
    Membership.objects.create(project=team, user=ada, role=Role.ADMIN)
    for actor in (mia, ada, gus):
        with pytest.raises(Refused, match="forbidden"):
            app_guest_add(job=job, app="web", username="gus", actor=actor)
    for app, name, code in (
        ("other", "gus", "not_found"),
        ("web", "nobody", "not_found"),
        ("web", "olga", "invalid_field"),
    ):
        with pytest.raises(Refused, match=code):
            app_guest_add(job=job, app=app, username=name, actor=olga)
    app_guest_add(job=job, app="web", username="gus", actor=olga)
    # A member of the project does not open a notebook, a guest does.
    assert signed_in(mia).post(f"/jobs/{job.label}/apps/web/open").status_code == 403
    with pytest.raises(Refused, match="forbidden"):
        app_guest_remove(job=job, app="web", username="gus", actor=mia)
    Membership.objects.filter(user=olga).update(role=Role.VIEWER)
    assert guest_apps(gus) == []
    assert signed_in(gus).post(f"/jobs/{job.label}/apps/web/open").status_code == 403
    with pytest.raises(Refused, match="forbidden"):
        app_guest_add(job=job, app="web", username="mia", actor=olga)
    app_guest_remove(job=job, app="web", username="gus", actor=ada)


def test_a_member_of_the_project_loses_nothing_by_being_a_guest(olga, team, gus):
    mia, job = a_user("mia"), running(olga, team)
    Membership.objects.create(project=team, user=mia, role=Role.MEMBER)
    for name in ("mia", "gus"):
        app_guest_add(job=job, app="web", username=name, actor=olga)
    Membership.objects.filter(user=olga).update(role=Role.VIEWER)
    opened = [signed_in(each).post(f"/jobs/{job.label}/apps/web/open") for each in (mia, gus, olga)]
    assert [each.status_code for each in opened] == [200, 403, 403]


def a_token(user: User, project: Project, job: Job | None = None, app: str = "", ttl=DAY):
    return app_token_create(user=user, name="ci", project=project, job=job, app=app, ttl=ttl)


def test_a_token_opens_what_it_is_for_and_its_user_may_open(olga, team, gus, job):
    row, text = a_token(olga, team, job, "web")
    _, of_project = a_token(olga, team)
    _, of_gus = a_token(gus, Project.objects.get(slug="speech"))
    found = statuses(
        with_token(job, text),
        with_token(job, text, "board"),
        with_token(job, of_project, "board"),
        with_token(job, of_gus),
        with_token(job, "tsa_forged"),
        with_token(Job(pk=job.pk + 1), of_project),
    )
    assert found == [200, 404, 200, 404, 401, 404]
    assert (row.key, row.digest) == (text[:16], AppToken.objects.get(pk=row.pk).digest)
    assert text not in str([*AppToken.objects.values(), *AuditEntry.objects.values()])
    AppToken.objects.filter(pk=row.pk).update(expires_at=timezone.now())
    assert statuses(with_token(job, text)) == [401]
    with pytest.raises(Refused, match="forbidden"):
        a_token(gus, team, job, "web")
    with pytest.raises(Refused, match="forbidden"):
        a_token(gus, team)
    app_guest_add(job=job, app="web", username="gus", actor=olga)
    _, of_guest = a_token(gus, team, job, "web")
    assert statuses(with_token(job, of_guest)) == [200]
    app_guest_remove(job=job, app="web", username="gus", actor=olga)
    assert statuses(with_token(job, of_guest)) == [404]
    user_deactivate(user=olga, actor="root")
    user_activate(user=olga, actor="root")
    assert statuses(with_token(job, of_project)) == [401]


def test_an_address_with_many_wrong_tokens_has_to_wait_and_a_right_one_beside_them_does_not(
    monkeypatch, olga, team, job
):
    looked_up = []

    def counted(text, name):
        looked_up.append(text)
        return token_access(text, name)

    monkeypatch.setattr("portal.apps.application.token_access", counted)
    # No time passes, so nobody is let in meanwhile.
    standing = partial(TokenBuckets, clock=lambda: 0.0)
    monkeypatch.setattr("portal.apps.application.TokenBuckets", standing)
    (_, right), (_, fresh), (expired, old) = (a_token(olga, team, job, "web") for _ in range(3))
    AppToken.objects.filter(pk=expired.pk).update(expires_at=timezone.now())
    most = settings.WRONG_SECRETS_A_MINUTE
    wrong = [old, *(f"tsa_{n}" for n in range(most - 1))]
    elsewhere = with_token(job, fresh)
    elsewhere.scope["client"] = ("192.0.2.8", 5)
    said = answers_of(
        saying(ANSWER),
        with_token(job, right),
        # What is no token's fault does not count.
        with_token(Job(pk=job.pk + 1), right),
        *(with_token(job, text) for text in wrong),
        with_token(job, "tsa_more"),
        with_token(job, fresh),
        with_token(job, right),
        elsewhere,
    )
    found = [status_of(each) for each in said]
    assert found == [200, 404] + [401] * most + [429, 429, 200, 200]
    assert header_of(said[-4], "retry-after") == [str(60 // most)]
    assert json.loads(body_of(said[-4]))["code"] == "throttled"
    assert looked_up == [right, right, *wrong, right, fresh]


def test_tokens_for_rest_open_no_app_and_those_for_apps_no_rest(olga, team, job):
    _, own = a_token(olga, team, job, "web")
    for scope in TokenScope:
        _, rest = token_create(user=olga, name="t", scope=scope, ttl=DAY)
        assert statuses(with_token(job, rest)) == [403]
    for method in ("get", "post"):
        caller = Client(headers={"Authorization": f"Bearer {own}"})
        assert getattr(caller, method)("/api/v1/jobs").status_code == 401


def test_the_app_learns_whose_token_it_is_and_never_the_token(olga, team, job):
    row, text = a_token(olga, team, job, "web")
    heard: list[bytes] = []
    (said,) = answers_of(saying(ANSWER, hears=heard), with_token(job, text))
    assert body_of(said) == b"ok"
    assert b"tsa_" not in heard[0].replace(row.key.encode(), b"")
    assert b"authorization" not in heard[0].lower()
    assert b"x-tessera-caller" in heard[0].lower()


@pytest.mark.parametrize("error", [OperationalError, InterfaceError])
def test_while_the_database_is_away_a_program_is_told_to_try_again(
    olga, team, job, monkeypatch, error
):
    _, text = a_token(olga, team, job, "web")
    monkeypatch.setattr("portal.apps.application.token_access", away(error))
    (said,) = answers_of(saying(ANSWER), with_token(job, text))
    assert status_of(said) == 503
    assert json.loads(body_of(said))["code"] == "database_unavailable"


def test_what_is_open_with_a_token_ends_when_it_is_revoked(olga, team, job):
    row, text = a_token(olga, team, job, "web")
    headers = [host_of(job), ("authorization", f"Bearer {text}")]
    revoke = statuses_after(headers, lambda: app_token_revoke(token=row, actor=olga))
    assert revoke == [401, 401]


def test_usage_is_counted_and_written_once_for_many_calls(olga, team, job, monkeypatch):
    row, text = a_token(olga, team, job, "web")
    calls = [with_token(job, text, method="POST", body=b"12345") for _ in range(20)]
    headers = [*calls[0].scope["headers"], (b"content-length", b"5")]
    for call in calls:
        call.scope["headers"] = headers
    writes = []

    def counted(counts):
        writes.append(counts)
        token_usage_write(counts)

    monkeypatch.setattr("portal.apps.token_usage.token_usage_write", counted)
    assert [status_of(said) for said in answers_of(saying(ANSWER), *calls)] == [200] * 20
    row.refresh_from_db()
    assert (row.requests, row.bytes_in, row.bytes_out) == (20, 100, 40)
    assert row.last_used_at is not None
    assert len(writes) == 1


@pytest.mark.parametrize("error", [OperationalError, InterfaceError])
def test_usage_that_cannot_be_written_is_kept_and_that_of_a_deleted_token_dropped(
    olga, team, job, monkeypatch, error
):
    row, _ = a_token(olga, team, job, "web")

    async def scenario():
        usage = TokenUsage(seconds=3_600)
        for pk in (row.pk, row.pk + 1):
            receive, _ = usage.count_call(pk, passing, passing_on)
            await receive()
        with monkeypatch.context() as broken:
            broken.setattr("portal.apps.token_usage.token_usage_write", away(error))
            await usage.flush()
        await usage.close()

    asyncio.run(scenario())
    row.refresh_from_db()
    assert (row.requests, row.bytes_in) == (1, 3)


async def passing():
    return {"type": "websocket.receive", "text": "gü"}


async def passing_on(message):
    """A caller that takes it."""


def away(error):
    def fail(*_):
        raise error("away")

    return fail
