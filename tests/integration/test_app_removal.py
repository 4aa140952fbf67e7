"""Visits and tokens of apps that are over are removed, and no others."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.contrib.sessions.backends.db import SessionStore
from django.contrib.sessions.models import Session
from django.utils import timezone

from portal.apps import removal
from portal.apps.models import AppToken, AppVisit
from portal.apps.tasks import remove
from portal.apps.tokens import app_token_create
from portal.apps.visits import digest
from portal.job_services.services import service_end
from portal.jobs.models import Job
from tests.support.rows import a_job, a_node, a_project, a_user
from tests.support.service_rows import a_service

pytestmark = pytest.mark.django_db
DAY = timedelta(days=1)


@pytest.fixture
def olga():
    a_node("n1")
    return a_user("olga")


@pytest.fixture
def team(olga):
    return a_project("vision", olga)


def a_visit(user, session: str = "", *, late: bool = False, **place) -> AppVisit:
    """With a cookie; a late one has a ticket that was never used."""
    name = f"{AppVisit.objects.count()}"
    return AppVisit.objects.create(
        user=user,
        app="web",
        session_key=session or a_session(DAY),
        ticket_digest=digest(f"ticket {name}"),
        ticket_expires_at=timezone.now() - timedelta(minutes=1),
        cookie_digest=None if late else digest(f"cookie {name}"),
        **place,
    )


def a_session(left: timedelta) -> str:
    session = SessionStore()
    session.set_expiry(left)
    session.create()
    return session.session_key


def a_token(user, project, *, expired: timedelta):
    row, _ = app_token_create(user=user, name="ci", project=project, job=None, app="", ttl=DAY)
    AppToken.objects.filter(pk=row.pk).update(expires_at=timezone.now() - expired)
    return row


def test_visits_of_which_nothing_can_come_any_more_are_removed(olga, team):
    job, ended = a_job(olga, team), a_job(olga, team)
    Job.objects.filter(pk=ended.pk).update(status="succeeded")
    service, gone = a_service(olga, team, "llm"), a_service(olga, team, "chat")
    service_end(service=gone, actor=olga)
    kept = {a_visit(olga, job=job), a_visit(olga, service=service)}
    a_visit(olga, job=ended)
    a_visit(olga, service=gone)
    a_visit(olga, job=job, late=True)
    a_visit(olga, "of-nobody", job=job)
    a_visit(olga, a_session(-DAY), job=job)
    # Others of the same browser are not touched.
    mia = a_user("mia")
    kept.add(a_visit(mia, next(iter(kept)).session_key, job=job))
    remove()
    assert set(AppVisit.objects.all()) == kept
    assert Session.objects.count() > 0


def test_an_expired_token_stays_listed_for_a_month(olga, team):
    kept = {a_token(olga, team, expired=each) for each in (-DAY, DAY, 29 * DAY)}
    a_token(olga, team, expired=31 * DAY)
    remove()
    assert set(AppToken.objects.all()) == kept


def test_one_run_removes_a_batch_and_the_next_one_goes_on(monkeypatch, olga, team):
    monkeypatch.setattr(removal, "BATCH", 2)
    job = a_job(olga, team)
    for _ in range(3):
        a_visit(olga, job=job, late=True)
        a_token(olga, team, expired=31 * DAY)
    left = []
    for _ in range(2):
        remove()
        left.append((AppVisit.objects.count(), AppToken.objects.count()))
    assert left == [(1, 1), (0, 0)]
