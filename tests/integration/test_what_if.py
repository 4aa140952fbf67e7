"""Last week on another cluster: questions over REST, and how the task answers them."""

import os
from dataclasses import replace
from datetime import timedelta
from types import SimpleNamespace

import pytest
from django.conf import settings
from django.core.management import CommandError, call_command
from django.db import connection
from django.utils import timezone
from rest_framework.test import APIClient

from portal.audit.models import AuditEntry
from portal.errors import Refused
from portal.quotas.models import Quota
from portal.what_if import progress, recorded_jobs, services, tasks
from portal.what_if.models import CUT_OFF, LEASE, WhatIf, WhatIfStatus
from portal.what_if.recorded_jobs import recorded_window
from portal.what_if.services import what_if_cancel, what_if_create, what_if_run
from portal.what_if.tasks import run_what_if, start_process, start_waiting
from tests.support.recorded_weeks import a_recorded_week
from tests.support.rows import a_user

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def alice():
    return a_user("alice")


@pytest.fixture
def root():
    return a_user("root", is_superuser=True)


@pytest.fixture
def client(root):
    client = APIClient()
    client.force_login(root)
    return client


@pytest.fixture
def week(alice):
    return a_recorded_week(alice)


def quota(gpus, project="vision"):
    return {"kind": "quota", "project": project, "units": gpus * 56_000}


def test_an_admin_asks_and_reads_how_much_shorter_the_waits_would_have_been(client, week):
    made = client.post("/api/v1/what-ifs", {"days": 7, "changes": [quota(1)]}, format="json")
    assert made.status_code == 202, made.json()
    assert made.headers["Location"] == f"/api/v1/what-ifs/{made.json()['id']}"
    told = client.get(made.headers["Location"]).json()
    assert (told["status"], told["progress"], told["asked_by"]) == ("done", 100, "root")
    found = told["outcome"]
    before, after = (found[side]["waits_by_project"] for side in ("baseline", "changed"))
    assert before["vision"]["mean_seconds"] == 1.5 * 3_600
    assert after["vision"]["mean_seconds"] == 0.5 * 3_600
    assert before["speech"] == after["speech"]
    assert found["differences"]["mean_wait_seconds"] < 0
    assert found["baseline"]["held_for"] == {"quota_project": 6 * 3_600}
    assert found["changes"] == ["vision may hold 1 GPUs"]
    assert found["accuracy"]["recorded_mean_seconds"] == found["accuracy"]["replayed_mean_seconds"]


def test_nothing_of_the_cluster_is_changed_and_the_question_is_written_down(client, week):
    client.post("/api/v1/what-ifs", {"changes": [quota(2)]}, format="json")
    assert Quota.objects.get(project__slug="vision").limit_units == 28_000
    line = AuditEntry.objects.get(action="what_if")
    assert (line.actor, line.after) == (
        "root",
        {"days": 7, "changes": ["vision may hold 2 GPUs"]},
    )


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"changes": [quota(1, "nobody")]}, "changes.0.project"),
        ({"changes": [quota(1), {"kind": "without", "node": "zz"}]}, "changes.1.node"),
        ({"changes": [{"kind": "magic"}]}, "changes.0.kind"),
        ({"changes": [7]}, "changes.0"),
        ({"changes": [], "days": 0}, "days"),
        ({"days": 7}, "changes"),
    ],
)
def test_a_question_that_makes_no_sense_is_a_problem_with_its_field(client, week, body, field):
    answer = client.post("/api/v1/what-ifs", body, format="json")
    assert answer.status_code == 400
    assert [error["field"] for error in answer.json()["errors"]] == [field]
    assert not WhatIf.objects.exists()


def test_too_many_jobs_and_too_many_questions_are_refused(client, week, root, monkeypatch):
    monkeypatch.setattr(recorded_jobs, "MAX_JOBS", 4)
    with pytest.raises(Refused, match="There are 5 jobs"):
        what_if_create(user=root, days=7, changes=[])
    monkeypatch.setattr(recorded_jobs, "MAX_JOBS", 5)
    for _ in range(services.MAX_OPEN):
        WhatIf.objects.create(requester=root, days=1)
    assert client.post("/api/v1/what-ifs", {"changes": []}, format="json").status_code == 409
    WhatIf.objects.update(stamped_at=timezone.now() - 2 * LEASE)
    assert client.post("/api/v1/what-ifs", {"changes": []}, format="json").status_code == 202


def test_a_time_without_any_job_is_refused_at_once(client, root):
    answer = client.post("/api/v1/what-ifs", {"days": 3, "changes": []}, format="json")
    assert (answer.status_code, answer.json()["code"]) == (400, "no_jobs")
    assert "in the last 3 days" in answer.json()["detail"]
    assert not WhatIf.objects.exists()
    with pytest.raises(CommandError, match="Choose more days"):
        call_command("what_if")


def test_an_open_question_is_cancelled_and_one_that_is_over_is_not(client, root, week):
    row = WhatIf.objects.create(requester=root, days=7)
    told = client.post(f"/api/v1/what-ifs/{row.pk}/cancel").json()
    assert (told["status"], bool(told["finished_at"]), told["outcome"]) == ("cancelled", True, None)
    assert not what_if_run(what_if_id=row.pk), "nobody takes it up any more"
    again = client.post(f"/api/v1/what-ifs/{row.pk}/cancel")
    assert (again.status_code, again.json()["code"]) == (409, "what_if_over")
    assert AuditEntry.objects.get(action="what_if_cancel").noun_id == str(row.pk)
    for _ in range(services.MAX_OPEN):
        WhatIf.objects.create(requester=root, days=1, status=WhatIfStatus.CANCELLED)
    assert client.post("/api/v1/what-ifs", {"changes": []}, format="json").status_code == 202


def test_who_works_on_a_cancelled_question_stops_and_leaves_it_so(root, week, monkeypatch):
    row = WhatIf.objects.create(requester=root, days=7)

    def cancelled_meanwhile(**how):
        what_if_cancel(user=root, row=row)
        return recorded_window(**how)

    monkeypatch.setattr(progress, "UPDATE_SECONDS", -1.0)
    monkeypatch.setattr(services, "recorded_window", cancelled_meanwhile)
    assert what_if_run(what_if_id=row.pk)
    row.refresh_from_db()
    assert (row.status, row.outcome, row.progress) == (WhatIfStatus.CANCELLED, None, 0)


def test_how_far_a_replay_is_stands_in_its_row(root, monkeypatch):
    row = WhatIf.objects.create(requester=root, days=7, status=WhatIfStatus.RUNNING)
    WhatIf.objects.update(stamped_at=timezone.now() - 2 * LEASE)
    monkeypatch.setattr(progress, "UPDATE_SECONDS", -1.0)
    progress.ProgressRecorder(row.pk)(1, 4)
    row.refresh_from_db()
    assert (row.progress, row.shown_status) == (25, "running")


def test_a_worker_that_is_stopped_says_so_in_the_row(root, week, monkeypatch):
    def stopped(**how):
        raise SystemExit(143)

    row = WhatIf.objects.create(requester=root, days=7)
    monkeypatch.setattr(services, "recorded_window", stopped)
    with pytest.raises(SystemExit):
        what_if_run(what_if_id=row.pk)
    row.refresh_from_db()
    assert row.status == WhatIfStatus.FAILED
    assert "Submit it again" in row.sentence


def test_only_platform_admins_ask(alice, week):
    with pytest.raises(Refused, match="forbidden"):
        what_if_create(user=alice, days=7, changes=[])
    carol = APIClient()
    carol.force_login(alice)
    assert carol.post("/api/v1/what-ifs", {"changes": []}, format="json").status_code == 403
    assert carol.get("/api/v1/what-ifs").status_code == 403


def test_a_bell_that_rings_twice_answers_once_and_one_that_died_holds_up_no_other(root, week):
    row = WhatIf.objects.create(requester=root, days=7, changes=[quota(1)])
    run_what_if(str(row.pk))
    first = WhatIf.objects.get(pk=row.pk)
    assert first.status == WhatIfStatus.DONE
    assert not what_if_run(what_if_id=row.pk)
    WhatIf.objects.update(status=WhatIfStatus.RUNNING)
    assert not what_if_run(what_if_id=row.pk), "somebody works on it"
    WhatIf.objects.update(stamped_at=timezone.now() - 2 * LEASE)
    assert not what_if_run(what_if_id=row.pk), "nobody waits for it any more"
    again = WhatIf.objects.create(requester=root, days=7, changes=[quota(1)])
    run_what_if(str(again.pk))
    assert WhatIf.objects.get(pk=again.pk).outcome["changed"] == first.outcome["changed"]
    row.refresh_from_db()
    assert (row.status, row.sentence) == (WhatIfStatus.FAILED, CUT_OFF.key)


def test_one_runs_at_a_time_and_the_second_reads_what_it_waits_for(client, root, week):
    first = WhatIf.objects.create(requester=root, days=7, status=WhatIfStatus.RUNNING)
    told = client.post("/api/v1/what-ifs", {"changes": [quota(1)]}, format="json").json()
    assert told["status"] == "asked"
    assert told["sentence"] == f"It waits for what-if {first.pk}: one runs at a time"
    run_what_if(str(told["id"]))
    assert not what_if_run(what_if_id=told["id"])
    assert WhatIf.objects.get(pk=told["id"]).status == WhatIfStatus.REQUESTED
    # The progress of the first is a sign of life of both.
    WhatIf.objects.filter(pk=first.pk).update(stamped_at=timezone.now() - LEASE / 2)
    what_if_cancel(user=root, row=first)
    start_waiting()
    row = WhatIf.objects.get(pk=told["id"])
    assert (row.status, row.sentence) == (WhatIfStatus.DONE, "")


def test_one_that_waits_is_alive_while_another_makes_progress(root, monkeypatch):
    running = WhatIf.objects.create(requester=root, days=7, status=WhatIfStatus.RUNNING)
    waits = WhatIf.objects.create(requester=root, days=7)
    WhatIf.objects.update(stamped_at=timezone.now() - LEASE + timedelta(seconds=60))
    monkeypatch.setattr(progress, "UPDATE_SECONDS", -1.0)
    progress.ProgressRecorder(running.pk)(1, 4)
    waits.refresh_from_db()
    assert waits.stamped_at > timezone.now() - LEASE / 2


def test_many_bells_and_forged_ones_start_one_process(root, monkeypatch, tmp_path):
    """Finding 2.2: a process for each message was a fork bomb for the worker."""
    started = []

    def popen(command, *, stdin, pass_fds):
        # As the process does: it keeps the lock that it inherits.
        started.append(os.dup(pass_fds[0]))

    monkeypatch.setattr(tasks.subprocess, "Popen", popen)
    not_eager = SimpleNamespace(conf=SimpleNamespace(task_always_eager=False))
    monkeypatch.setattr(tasks, "app", not_eager)
    monkeypatch.setattr(settings, "PLATFORM", replace(settings.PLATFORM, var=tmp_path))
    for forged in ("1", "x", "../../x", "9" * 5_000):
        run_what_if(forged)
    assert started == [], "nothing waits"
    WhatIf.objects.create(requester=root, days=7)
    for _ in range(50):
        run_what_if("1")
    assert len(started) == 1
    assert list(tmp_path.iterdir()) == [], "in compose, the folder is read-only"
    for held in started:
        os.close(held)


def test_a_question_that_nobody_works_on_any_more_reads_as_failed(client, root):
    row = WhatIf.objects.create(requester=root, days=7, status=WhatIfStatus.RUNNING)
    WhatIf.objects.update(stamped_at=timezone.now() - 2 * LEASE)
    (told,) = client.get("/api/v1/what-ifs").json()["results"]
    assert (told["id"], told["status"]) == (row.pk, "failed")
    assert "Submit it again" in told["sentence"]
    assert client.get("/api/v1/what-ifs/x1").status_code == 404


def test_what_does_not_fit_the_cluster_any_more_fails_with_its_sentence(root, week):
    row = WhatIf.objects.create(
        requester=root, days=7, changes=[{"kind": "without", "node": "gone"}]
    )
    run_what_if(str(row.pk))
    row.refresh_from_db()
    assert (row.status, row.sentence) == (
        WhatIfStatus.FAILED,
        "There is no node gone. There is node-a",
    )


@pytest.mark.slow
def test_a_process_of_its_own_answers_so_that_the_worker_is_free(root, week, monkeypatch, tmp_path):
    name = connection.settings_dict["NAME"]
    if connection.vendor != "sqlite":
        pytest.skip("the test database of a server is not the one that a new process opens")
    monkeypatch.setenv("TESSERA_DATABASE_URL", f"sqlite:///{name}")
    monkeypatch.setenv("DJANGO_SETTINGS_MODULE", "portal.settings.test")
    row = WhatIf.objects.create(requester=root, days=7, changes=[quota(1)])
    process = start_process(tmp_path)
    assert process is not None
    assert start_process(tmp_path) is None, "one process at a time"
    with process:
        assert process.wait() == 0
    row.refresh_from_db()
    assert (row.status, row.progress) == (WhatIfStatus.DONE, 100)
    assert row.outcome["baseline"]["jobs"] == 5
