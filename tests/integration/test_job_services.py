"""A service keeps jobs running: started, asked for their health, scaled, replaced, ended."""

from __future__ import annotations

from datetime import timedelta
from functools import cache

import pytest
from django.utils import timezone

from agents.contract.message import read_message
from portal.accounts.models import Membership, Project, Role, User
from portal.errors import Refused
from portal.job_services.drive import services_drive
from portal.job_services.loads import CallCounts, loads_report
from portal.job_services.models import ServiceLoad
from portal.job_services.selectors import busyness_of, copy_rows, ready_targets
from portal.job_services.services import service_change, service_end, values_of
from portal.job_services.values import ServiceValues
from portal.jobs.models import Job
from portal.jobs.services import job_cancel
from portal.submission.limits import request_limits
from scheduler.core.model.states import JobStatus
from scheduler.core.request import InvalidRequest
from tests.support.rows import HonestNode, a_node, a_project, a_request, a_user, settle
from tests.support.service_rows import a_round, a_service, check_all, copies_of

pytestmark = pytest.mark.django_db


@pytest.fixture
def olga() -> User:
    return a_user("olga")


@pytest.fixture
def team(olga) -> Project:
    return a_project("vision", olga)


@pytest.fixture
def node(db) -> HonestNode:
    return a_node("n1", gpus=4)


def sentence(service) -> str:
    message = read_message(service.problem)
    return message.text if message else ""


def change(service, actor, body=None, **values):
    chosen = {name: getattr(service, name) for name in ServiceValues.__slots__} | values
    return service_change(
        service=service,
        actor=actor,
        values=ServiceValues(**chosen),
        body=body,
        limits=request_limits(),
    )


def with_calls(service, waiting: int = 0, *, process: str = "p", **open_calls: int) -> None:
    """As a web process reports them. `open_calls`: by job, such as J12=3."""
    calls = {int(job[1:]): count for job, count in open_calls.items()}
    counts = CallCounts(waiting, calls, [0] * 36)
    loads_report(process=process, counts={service.pk: counts}, now=timezone.now())


def test_a_service_starts_its_copies_and_calls_those_that_are_healthy(olga, team, node):
    service = a_round(a_service(olga, team, min_copies=2, max_copies=3))
    first, second = copies_of(service)
    assert first.job.kind == "service" and first.job.owner == olga
    assert first.port != second.port, "on one machine, both may listen"
    assert first.job.request["env"]["PORT"] == str(first.port)
    assert first.job.request["apps"] == [f"llm:{first.port}"]
    assert check_all() == 0, "neither runs yet"
    settle(node)
    assert ready_targets([service.pk]) == {service.pk: {}}
    assert [check_all(most=1) for _ in range(2)] == [1, 1]
    assert check_all() == 0, "each is asked once in a while, by one process"
    targets = ready_targets([service.pk])[service.pk]
    assert {job: target.port for job, target in targets.items()} == {
        first.job_id: first.port,
        second.job_id: second.port,
    }
    assert [row.status for row in copy_rows(service)] == ["ready", "ready"]
    assert sentence(a_round(service)) == ""


def test_a_service_that_cannot_be_driven_does_not_hold_up_the_next(olga, team, node):
    broken, whole = a_service(olga, team), a_service(olga, team, name="web")
    # As a web process of another version might write it.
    ServiceLoad.objects.create(
        service=broken, process="p", reported_at=timezone.now(), open_calls={"J-1": 1}
    )
    assert services_drive(now=timezone.now(), limits=cache(request_limits)) == 2
    assert len(copies_of(whole)) == 1


def test_a_copy_that_fails_is_replaced_after_a_wait_that_grows(olga, team, node):
    service = a_round(a_service(olga, team))
    seconds = 0.0
    for failures, wait in ((1, 1), (2, 2), (3, 4)):
        settle(node)
        (copy,) = copies_of(service)
        node.finish(exit_code=1)
        settle(node)
        service = a_round(service, seconds=seconds)
        assert (service.failures, copies_of(service)) == (failures, [])
        assert f"{copy.job.label} ended as failed" in sentence(service)
        service = a_round(service, seconds=seconds + wait - 0.5)
        assert copies_of(service) == []
        seconds += wait
        service = a_round(service, seconds=seconds)
        assert len(copies_of(service)) == 1


def test_a_copy_that_took_calls_for_long_starts_the_count_anew(olga, team, node):
    service = a_round(a_service(olga, team))
    service.failures = 5
    service.save()
    settle(node)
    check_all()
    node.finish(exit_code=1)
    settle(node)
    service = a_round(service, seconds=120)
    assert service.failures == 1


def test_a_copy_that_ceases_to_answer_leaves_and_is_replaced(olga, team, node):
    service = a_round(a_service(olga, team, start_seconds=30))
    settle(node)
    check_all()
    (copy,) = copies_of(service)
    for round_number in range(1, 4):
        assert len(ready_targets([service.pk])[service.pk]) == 1
        assert check_all(is_healthy=False, seconds=6 * round_number) == 1
    assert ready_targets([service.pk])[service.pk] == {}
    service = a_round(service, seconds=40)
    assert len(copies_of(service)) == 1, "it may recover for 30 s"
    service = a_round(service, seconds=50)
    assert "did not answer at /health for 30 s" in sentence(service)
    copy.refresh_from_db()
    assert copy.leaves_at is not None
    service = a_round(service, seconds=52)
    assert [each.leaves_at is None for each in copies_of(service)] == [False, True]


def test_a_new_attempt_of_a_job_is_asked_again(olga, team, node):
    service = a_round(a_service(olga, team))
    settle(node)
    check_all()
    (copy,) = copies_of(service)
    copy.ready_attempt -= 1
    copy.save()
    assert ready_targets([service.pk])[service.pk] == {}
    assert check_all(seconds=6) == 1
    assert len(ready_targets([service.pk])[service.pk]) == 1


def test_the_number_of_copies_follows_the_calls(olga, team, node):
    service = a_round(
        a_service(olga, team, min_copies=0, max_copies=3, calls_per_copy=2, cool_down_seconds=60)
    )
    assert copies_of(service) == []
    with_calls(service, waiting=1)
    service = a_round(service)
    (first,) = copies_of(service)
    settle(node)
    check_all()
    with_calls(service, waiting=1, **{f"J{first.job_id}": 2})
    with_calls(service, process="q", **{f"J{first.job_id}": 2})
    service = a_round(service)
    assert len(copies_of(service)) == 3
    settle(node)
    check_all(seconds=2)
    # No process has reported for a while: no calls.
    service = a_round(service, seconds=20)
    service = a_round(service, seconds=79)
    assert service.copies == 3
    service = a_round(service, seconds=81)
    assert service.copies == 0
    service = a_round(service, seconds=90)
    settle(node)
    assert {copy.job.status for copy in copies_of(service)} == {JobStatus.CANCELLED}
    service = a_round(service, seconds=91)
    assert (copies_of(service), sentence(service)) == ([], "")


def test_a_copy_that_leaves_finishes_its_calls(olga, team, node):
    service = a_round(a_service(olga, team))
    settle(node)
    check_all()
    (copy,) = copies_of(service)
    service_end(service=service, actor=olga)
    service = a_round(service)
    assert ready_targets([service.pk])[service.pk] == {}
    with_calls(service, **{f"J{copy.job_id}": 1})
    service = a_round(service, seconds=7)
    assert copies_of(service)[0].job.status == JobStatus.RUNNING
    with_calls(service)
    service = a_round(service, seconds=7)
    assert copies_of(service)[0].job.status == JobStatus.STOPPING
    settle(node)
    service = a_round(service, seconds=9)
    assert copies_of(service) == []
    assert [row.status for row in copy_rows(service)] == ["cancelled"]


def test_a_changed_request_replaces_one_copy_after_another(olga, team, node):
    service = a_round(a_service(olga, team, min_copies=2, max_copies=2))
    settle(node)
    check_all()
    old = [copy.job_id for copy in copies_of(service)]
    service = change(service, olga, body=a_request(team, command=["python", "new.py"]))
    assert service.generation == 2
    seen = []
    for seconds in range(0, 80, 10):
        service = a_round(service, seconds=seconds)
        settle(node)
        check_all(seconds=seconds)
        ready = ready_targets([service.pk])[service.pk]
        seen.append((len(copies_of(service)), len(ready)))
        assert len(ready) >= 2, seen
    assert not set(ready) & set(old)
    assert {copy.generation for copy in copies_of(service)} == {2}
    assert max(there for there, _ in seen) <= 4


def test_a_copy_is_replaced_before_its_time_limit_ends_it(olga, team, node):
    service = a_round(a_service(olga, team, request={"time_limit": "1h"}))
    settle(node)
    check_all()
    service = a_round(service, seconds=44 * 60)
    assert len(copies_of(service)) == 1
    service = a_round(service, seconds=46 * 60)
    assert len(copies_of(service)) == 2


def test_a_time_limit_that_ends_before_the_start_is_a_failure(olga, team, node):
    service = a_round(a_service(olga, team, request={"time_limit": "10m"}))
    settle(node)
    check_all(is_healthy=False)
    service = a_round(service, seconds=7 * 60)
    assert service.failures == 0
    service = a_round(service, seconds=8 * 60)
    assert [copy.leaves_at is None for copy in copies_of(service)] == [False]
    assert service.failures == 1
    assert "did not answer at /health for" in sentence(service)
    service = a_round(service, seconds=8 * 60 + 2)
    assert [copy.leaves_at is None for copy in copies_of(service)] == [False, True]


def test_what_cannot_be_submitted_is_told_and_tried_again(olga, team, node):
    service = a_service(olga, team)
    Membership.objects.filter(user=olga).delete()
    service = a_round(service)
    assert copies_of(service) == [] and service.failures == 1
    assert "project" in sentence(service)
    Membership.objects.create(project=team, user=olga, role=Role.MEMBER)
    service = a_round(service, seconds=2)
    assert len(copies_of(service)) == 1


def test_a_copy_that_somebody_cancels_is_replaced(olga, team, node):
    service = a_round(a_service(olga, team))
    (copy,) = copies_of(service)
    job_cancel(job=copy.job, actor="olga")
    service = a_round(service)
    assert "ended as cancelled" in sentence(service)
    service = a_round(service, seconds=2)
    assert len(copies_of(service)) == 1


def test_only_its_owner_changes_what_a_service_runs(olga, team, node):
    service = a_service(olga, team)
    ada, mia = a_user("ada"), a_user("mia")
    Membership.objects.create(project=team, user=ada, role=Role.ADMIN)
    Membership.objects.create(project=team, user=mia, role=Role.MEMBER)
    assert change(service, ada, max_copies=3).max_copies == 3
    with pytest.raises(Refused) as refused:
        change(service, ada, body=a_request(team, secrets=["HF_TOKEN"]))
    assert refused.value.code == "forbidden"
    with pytest.raises(Refused) as refused:
        change(service, mia, max_copies=4)
    assert refused.value.code == "forbidden"
    service_end(service=service, actor=ada)
    with pytest.raises(Refused) as refused:
        change(service, olga, max_copies=4)
    assert refused.value.code == "not_found"


def test_a_fixed_port_and_an_own_variable_are_kept(olga, team, node):
    service = a_service(olga, team, port=8000, request={"env": {"A": "1"}, "apps": ["ui:9000"]})
    service = a_round(service)
    (copy,) = copies_of(service)
    assert copy.job.request["apps"] == ["llm:8000", "ui:9000"]
    assert copy.job.request["env"] == {"PORT": "8000", "A": "1"}
    service = change(service, olga, port=9001)
    assert service.generation == 2
    service = a_round(service)
    assert copies_of(service)[-1].job.request["env"] == {"PORT": "9001", "A": "1"}
    unchanged = change(service, olga, body=dict(service.request))
    assert unchanged.generation == 2


@pytest.mark.parametrize(
    ("values", "field"),
    [
        ({"min_copies": 2}, "min_copies"),
        ({"max_copies": 65}, "min_copies"),
        ({"max_copies": 0, "min_copies": 0}, "min_copies"),
        ({"calls_per_copy": 0}, "calls_per_copy"),
        ({"cool_down_seconds": -1}, "cool_down_seconds"),
        ({"start_seconds": 1}, "start_seconds"),
        ({"port": 70_000}, "port"),
        ({"health_path": "health"}, "health_path"),
        ({"health_path": "/a b"}, "health_path"),
        ({"health_path": "/a\r\nX: y"}, "health_path"),
        ({"name": "two words"}, "name"),
        ({"name": "a" * 21}, "name"),
    ],
)
def test_bad_values_are_refused_by_field(olga, team, values, field):
    with pytest.raises(Refused) as refused:
        a_service(olga, team, **values)
    assert refused.value.field == field
    assert Job.objects.count() == 0


@pytest.mark.parametrize(
    "fields", [{"array": "0-3"}, {"begin": "+1h"}, {"after": ["J-1"]}, {"apps": "web"}]
)
def test_a_request_that_is_for_once_is_no_service(olga, team, fields):
    with pytest.raises(InvalidRequest):
        a_service(olga, team, request=fields)


def test_what_processes_report_adds_up_and_ages(olga, team, node):
    service = a_service(olga, team)
    counts = [0] * 36
    counts[0], counts[10] = 98, 2
    for process in ("a", "b"):
        each = CallCounts(1, {7: 2}, counts)
        loads_report(process=process, counts={service.pk: each}, now=timezone.now())
    busy = busyness_of([service.pk])[service.pk]
    assert (busy.waiting, busy.open_calls) == (2, 4)
    assert busy.calls_per_second == pytest.approx(200 / 60)
    assert busy.p50_ms == 1.0 and busy.p99_ms == pytest.approx(57.7)
    # By a process whose clock is a little ahead.
    service.loads.update(reported_at=timezone.now() + timedelta(seconds=2))
    assert busyness_of([service.pk])[service.pk].open_calls == 4
    service.loads.update(reported_at=timezone.now() - timedelta(seconds=30))
    assert busyness_of([service.pk])[service.pk].open_calls == 0
    service.loads.update(reported_at=timezone.now() - timedelta(seconds=90))
    assert busyness_of([service.pk])[service.pk].p50_ms is None
    assert values_of(service).max_copies == 1
