"""What a request could be instead: buttons beside the form, one click on the job's page, REST."""

import json
import re
from datetime import timedelta
from html import unescape

import pytest
from django.utils import timezone

from agents.contract.moments import write_moment
from portal.errors import Refused
from portal.jobs.holds import job_hold
from portal.jobs.models import Job
from portal.planning.estimates import no_estimate_for_job
from portal.submission.replacement import job_replace
from portal.web.wording.times import text_with_clock
from scheduler.core.model.states import JobStatus
from scheduler.core.request import InvalidRequest
from scheduler.estimates import estimates_refresh
from scheduler.tasks import plan_once
from tests.support.markup import without_time_tags
from tests.support.rows import LIMITS, a_job, a_node, a_project, a_user, settle

pytestmark = pytest.mark.django_db(transaction=True)

WHOLE = {"device": {"gpus": 1}}
SMALLER = {"device": {"mig": "3g.71gb"}}


@pytest.fixture
def olga(client):
    olga = a_user("olga")
    client.force_login(olga)
    return olga


@pytest.fixture
def team(olga):
    return a_project("vision", olga)


@pytest.fixture
def node():
    return a_node("n1", gpus=2)


@pytest.fixture
def waiting(olga, team, node):
    """It wants a whole GPU, and a part of one is free."""
    a_job(olga, team, device={"mig": "4g.71gb"})
    a_job(olga, team, **WHOLE)
    job = a_job(olga, team, name="mine", time_limit="8h", env={"A": "x"}, **WHOLE)
    settle(node)
    estimates_refresh()
    return again(job)


def again(job):
    return Job.objects.get(pk=job.pk)


def panel(client, values):
    """The answer about the request, without the cards beside it."""
    page = unescape(client.post("/request/preview", values).content.decode())
    return re.sub(r'<span[^>]* data-part="start-.*?</span>', "", page, flags=re.DOTALL)


def test_one_click_puts_the_alternative_where_the_job_stood(client, node, waiting):
    page = unescape(client.get(f"/jobs/{waiting.label}/").content.decode())
    value = page.split('form="alternative" name="change" value="')[1].split('">')[0]
    assert json.loads(value) == SMALLER
    answer = client.post(f"/jobs/{waiting.label}/alternative", {"change": value})
    new = Job.objects.latest("pk")
    assert answer.headers["Location"] == f"/jobs/{new.label}/"
    assert again(waiting).status == JobStatus.CANCELLED
    assert new.request == waiting.request | SMALLER
    assert new.queued_at == waiting.queued_at
    settle(node)
    assert again(new).status == JobStatus.RUNNING
    assert f"replaces {waiting.label}" in [e.sentence for e in new.events.all()]


def test_who_waited_for_the_old_job_waits_for_the_new_one_and_a_hold_stays(olga, team, waiting):
    later = a_job(olga, team, after=[waiting.label])
    job_hold(job=waiting, actor=olga, reason="not yet")
    new = job_replace(job=waiting, actor=olga, changes={"time_limit": "1h"}, limits=LIMITS)
    assert list(later.after.all()) == [new]
    assert again(new).hold_reason == "not yet"
    plan_once()
    assert again(later).status == JobStatus.QUEUED


def test_a_time_to_begin_stays_that_time_and_is_left_out_once_it_is_over(olga, team, node):
    job = a_job(olga, team, begin_at="+2h", **WHOLE)
    new = job_replace(job=job, actor=olga, changes={"time_limit": "2h"}, limits=LIMITS)
    assert abs(new.begin_at - job.begin_at) < timedelta(seconds=1)
    Job.objects.filter(pk=new.pk).update(begin_at=timezone.now() - timedelta(hours=1))
    newest = job_replace(job=again(new), actor=olga, changes={"time_limit": "3h"}, limits=LIMITS)
    assert newest.begin_at is None


def test_a_change_that_is_refused_leaves_the_job_as_it_was(client, olga, waiting):
    for changes, error in (
        ({"device": {"mig": "9g.999gb"}}, Refused),
        ({"replicas": "many"}, InvalidRequest),
        ({"image": "other"}, Refused),
        ({}, Refused),
    ):
        with pytest.raises(error):
            job_replace(job=waiting, actor=olga, changes=changes, limits=LIMITS)
    count = Job.objects.count()
    change = json.dumps({"device": {"mig": "9g.999gb"}})
    answer = client.post(f"/jobs/{waiting.label}/alternative", {"change": change})
    assert answer.headers["Location"].startswith("/request/?like=")
    assert (again(waiting).status, Job.objects.count()) == (JobStatus.QUEUED, count)


def test_only_the_owner_and_only_of_a_job_that_waits_and_never_ran(client, olga, team, waiting):
    running = Job.objects.filter(status=JobStatus.RUNNING).first()
    boss = a_user("boss", is_superuser=True)
    for job, by, code in (
        (running, olga, "not_waiting"),
        (waiting, boss, "forbidden"),
    ):
        with pytest.raises(Refused) as refused:
            job_replace(job=job, actor=by, changes=SMALLER, limits=LIMITS)
        assert refused.value.code == code
    waiting.attempts.create(number=1, created_at=timezone.now())
    with pytest.raises(Refused, match="has_run"):
        job_replace(job=waiting, actor=olga, changes=SMALLER, limits=LIMITS)
    page = client.get(f"/jobs/{waiting.label}/").content.decode()
    assert 'name="change"' not in page, "no button that would only be refused"
    assert "change=" in page, "but the form with the change"


def test_rest_takes_an_alternative_as_it_is_told(client, waiting):
    body = client.get(f"/api/v1/jobs/{waiting.label}").json()
    first = body["reason"]["alternatives"][0]
    assert first["said"]["key"] == "instead.profile"
    url = f"/api/v1/jobs/{waiting.label}/replace"
    answer = client.post(url, {"changes": first["changes"]}, "application/json")
    assert answer.status_code == 201, answer.content
    assert answer.json()["request"]["device"] == first["changes"]["device"]
    assert answer.headers["Location"].endswith(f"/jobs/{answer.json()['id']}")
    assert again(waiting).status == JobStatus.CANCELLED
    assert client.post(url, {"changes": SMALLER}, "application/json").status_code == 409
    assert client.post(url, {"changes": 3}, "application/json").status_code == 400


def test_beside_the_form_stands_what_would_start_now_and_a_click_fills_it_in(client, waiting):
    values = client.get("/request/", {"like": waiting.label}).context["values"]
    values |= {"name": "typed", "begin_at": ""}
    text = panel(client, values)
    assert "Would start now" in text
    value = text.split('name="alternative" value="')[1].split('">')[0]
    count = Job.objects.count()
    answer = client.post("/request/", values | {"alternative": value})
    assert answer.status_code == 200
    assert Job.objects.count() == count, "nothing is submitted yet"
    filled = answer.context["values"]
    assert filled["amount"] == "3g.71gb"
    assert {k: v for k, v in filled.items() if k != "amount"} == {
        k: v for k, v in values.items() if k != "amount"
    }
    assert "Can start now" in answer.content.decode()


def test_enter_in_a_field_submits_the_form_and_takes_no_alternative(client, waiting):
    page = client.get("/request/", {"like": waiting.label}).content.decode()
    first = page.index("<button", page.index('id="request"'))
    assert page[first:].startswith('<button type="submit" name="enter" hidden>')


@pytest.mark.parametrize(
    ("fields", "offered"),
    [
        ({"amount": "gpus", "gpus": "4"}, {"device": {"gpus": 2}}),
        ({"amount": "gpus", "gpus": "1", "replicas": "8"}, {"replicas": 2}),
        ({"amount": "gpus", "gpus": "1", "models": "B200"}, {"device": {"gpus": 1}}),
        ({"amount": "3g.90gb"}, {"device": {"mig": "4g.71gb"}}),
    ],
)
def test_what_can_never_run_here_is_answered_with_what_can(client, waiting, fields, offered):
    values = client.get("/request/", {"like": waiting.label}).context["values"] | fields
    text = panel(client, values)
    assert "Cannot run on this cluster" in text
    assert "Could run here" in text
    found = [part.split('">')[0] for part in text.split('name="alternative" value="')[1:]]
    assert offered in [json.loads(one) for one in found]
    for one in found:
        filled = client.post("/request/", values | {"alternative": one}).context["values"]
        assert "Cannot run on this cluster" not in panel(client, filled)


@pytest.mark.parametrize("text", ["{", '{"image": "x"}', "3"])
def test_a_button_that_nobody_made_submits_nothing(client, waiting, text):
    values = client.get("/request/", {"like": waiting.label}).context["values"]
    before = Job.objects.count()
    answer = client.post("/request/", values | {"alternative": text})
    assert (answer.status_code, Job.objects.count()) == (200, before)


def test_who_waits_for_somebody_or_for_a_date_says_so_in_place_of_an_estimate(client, olga, team):
    a_node("n1")
    held, later = (a_job(olga, team, begin_at="+2h", **WHOLE) for _ in range(2))
    follower = a_job(olga, team, after=[later.label], **WHOLE)
    job_hold(job=held, actor=olga, reason="wait for me")
    plan_once()
    when = write_moment(later.begin_at)
    for job, said, code in (
        (held, "no estimate while it is held", "held"),
        (later, f"not before {when}", "begin_time"),
        (follower, "no estimate while it waits for other jobs", "dependency"),
    ):
        job.refresh_from_db()
        assert no_estimate_for_job(job).text.startswith(said)
        shown = text_with_clock(said)
        assert shown in without_time_tags(client.get(f"/jobs/{job.label}/").content.decode())
        assert shown in without_time_tags(client.get("/jobs/").content.decode())
        body = client.get(f"/api/v1/jobs/{job.label}").json()
        assert body["no_estimate"]["code"] == code
        assert body["no_estimate"]["sentence"].startswith(said)
    values = client.get("/request/", {"like": held.label}).context["values"]
    assert "Would wait; not before" in panel(client, values | {"begin_at": "+3h"})


def test_who_waits_for_approval_or_quota_says_so(olga, team, node):
    team.approval_units = 56_000
    team.save()
    asked = a_job(olga, team, replicas=2, **WHOLE)
    assert no_estimate_for_job(asked).text == "no estimate until it is approved"
    job = a_job(olga, team, **WHOLE)
    for code, said in (("quota_project", "quota"), ("budget", "budget")):
        job.reason = {"code": code}
        assert no_estimate_for_job(job).text == f"no estimate while it waits for {said}"
    job.status = JobStatus.RUNNING
    assert no_estimate_for_job(job) is None


def test_a_chinese_reader_reads_reason_alternatives_and_estimate_in_chinese(client, waiting):
    client.cookies["django_language"] = "zh-hans"
    page = unescape(client.get(f"/jobs/{waiting.label}/").content.decode())
    for said in ("有作业结束后它就开始", "需要 1 × H200，空闲", "用 3g.71gb", "无法估计：没有依据"):
        assert said in page, said
    for english in (waiting.reason["sentence"], waiting.reason["unblocks"], "With 3g.71gb"):
        assert english not in page, english
    assert "空闲" in client.get("/jobs/").content.decode()
    values = client.get("/request/", {"like": waiting.label}).context["values"]
    text = panel(client, values | {"amount": "gpus", "gpus": "9"})
    assert "没有 9 块 H200-141GB 的节点，最多 2 块" in text
    answer = client.post("/request/", values | {"amount": "gpus", "gpus": "9"})
    assert "没有 9 块" in answer.context["errors"]["gpus"]


def test_a_row_of_an_earlier_version_shows_its_english_sentence(client, waiting):
    reason = {k: v for k, v in waiting.reason.items() if k not in ("said", "unblocks_said")}
    reason["alternatives"] = [{"kind": "limit", "sentence": "Be shorter", "changes": {}}]
    estimate = {"optimistic": 1, "expected": 2, "pessimistic": 3, "basis": "old times"}
    Job.objects.filter(pk=waiting.pk).update(reason=reason, estimate=estimate)
    page = unescape(client.get(f"/jobs/{waiting.label}/").content.decode())
    for said in (reason["sentence"], reason["unblocks"], "Be shorter", "old times"):
        assert said in page
    body = client.get(f"/api/v1/jobs/{waiting.label}").json()
    assert body["estimate"]["basis"] == "old times"
