"""A canary: another service of the same owner that gets some of the calls, is promoted, or ends."""

from __future__ import annotations

import pytest
from django.utils import timezone
from rest_framework.test import APIClient

from agents.contract.message import read_message
from portal.accounts.models import Membership, Project, Role, User
from portal.audit.models import AuditEntry
from portal.errors import Refused
from portal.job_services.loads import CallCounts, loads_report
from portal.job_services.models import JobService
from portal.job_services.selectors import ready_targets, service_routes
from portal.job_services.services import (
    canary_values,
    service_change,
    service_end,
    service_promote,
    values_of,
)
from portal.job_services.values import CanaryValues
from portal.submission.limits import request_limits
from tests.support.rows import HonestNode, a_node, a_project, a_user, settle
from tests.support.service_rows import a_round, a_service, check_all, copies_of

pytestmark = pytest.mark.django_db
NEW = {"command": ["python", "new.py"]}


@pytest.fixture
def olga() -> User:
    return a_user("olga")


@pytest.fixture
def team(olga) -> Project:
    return a_project("vision", olga)


@pytest.fixture
def node(db) -> HonestNode:
    return a_node("n1", gpus=8)


def split(service: JobService, actor: User, label: str | None, percent: int | None) -> JobService:
    return service_change(
        service=service,
        actor=actor,
        values=values_of(service),
        canary=canary_values(service, label=label, percent=percent),
        limits=request_limits(),
    )


def promote(service: JobService, actor: User) -> JobService:
    return service_promote(service=service, actor=actor, limits=request_limits())


def refused(work, *arguments) -> str:
    with pytest.raises(Refused) as refusal:
        work(*arguments)
    return refusal.value.code


def sentence(problem) -> str:
    message = read_message(problem)
    return message.text if message else ""


def all_rounds(node: HonestNode, *services: JobService, seconds: float) -> None:
    """One over each, and what follows on the node."""
    for service in services:
        a_round(service, seconds=seconds)
    settle(node)
    check_all(seconds=seconds)


def test_the_owner_gives_a_canary_some_of_the_calls_and_takes_them_back(olga, team, node):
    service, canary = a_service(olga, team), a_service(olga, team, "next", request=NEW)
    service = split(service, olga, canary.label, 10)
    routes = service_routes([service.pk])
    assert set(routes) == {service.pk, canary.pk}, "its copies are read, too"
    assert (routes[service.pk].canary, routes[service.pk].canary_percent) == (canary.pk, 10)
    line = AuditEntry.objects.get(action="service_change")
    assert (line.after["canary"], line.after["canary_percent"]) == (canary.label, 10)
    service = split(service, olga, None, 50)
    assert (service.canary, service.canary_percent) == (canary, 50)
    assert canary_values(service, label=canary.label, percent=None) == CanaryValues(
        canary.label, 50
    )
    assert canary_values(service, label="S-999", percent=None) == CanaryValues("S-999", 0)
    service = split(service, olga, None, 0)
    assert service_routes([service.pk])[service.pk].canary == 0
    service = split(service, olga, "", None)
    assert service.canary is None
    assert canary_values(service, label=None, percent=None) is None
    unchanged = service_change(
        service=split(service, olga, canary.label, 5),
        actor=olga,
        values=values_of(service),
        limits=request_limits(),
    )
    assert unchanged.canary_percent == 5, "another change leaves it"


def test_only_a_service_of_the_same_owner_and_project_can_be_a_canary(olga, team, node):
    service, canary = a_service(olga, team), a_service(olga, team, "next", request=NEW)
    ada = a_user("ada")
    Membership.objects.create(project=team, user=ada, role=Role.ADMIN)
    of_ada = a_service(ada, team, "of-ada")
    elsewhere = a_service(olga, a_project("speech", olga), "elsewhere")
    ended = service_end(service=a_service(olga, team, "old"), actor=olga)
    for label in (of_ada.label, elsewhere.label, ended.label, service.label, "S-999", "x", "S-0"):
        assert refused(split, service, olga, label, 10) == "canary_invalid", label
    assert refused(split, service, olga, None, 10) == "canary_invalid", "of none"
    assert refused(split, service, olga, canary.label, 101) == "limit_invalid"
    assert refused(split, service, ada, canary.label, 10) == "forbidden", "an admin of the project"
    assert refused(promote, service, olga) == "canary_invalid"
    service = split(service, olga, canary.label, 10)
    assert refused(promote, service, ada) == "forbidden"
    third = a_service(olga, team, "third")
    assert refused(split, third, olga, canary.label, 1) == "canary_invalid", "is one already"
    assert refused(split, third, olga, service.label, 1) == "canary_invalid", "has one itself"
    assert refused(split, canary, olga, third.label, 1) == "canary_invalid", "no canary of one"
    service_end(service=service, actor=olga)
    assert split(third, olga, canary.label, 1).canary == canary, "free again"


def test_a_canary_whose_copy_fails_gets_no_more_calls(olga, team, node):
    service, canary = a_service(olga, team), a_service(olga, team, "next", request=NEW)
    all_rounds(node, canary, seconds=0)
    service = a_round(split(service, olga, canary.label, 20))
    assert service.canary_percent == 20
    (copy,) = copies_of(canary)
    # It alone runs.
    node.finish(exit_code=1)
    settle(node)
    a_round(canary)
    service = a_round(service)
    assert (service.canary, service.canary_percent) == (canary, 0)
    expected = f"{canary.label} gets no more calls: {copy.job.label} ended as failed"
    assert sentence(service.canary_problem).startswith(expected)
    # Its owner has seen it and tries again.
    service = a_round(split(service, olga, None, 20))
    assert (service.canary_percent, service.canary_problem) == (20, None)


def test_a_canary_that_is_not_ready_in_time_gets_no_more_calls(olga, team, node):
    service = a_service(olga, team)
    canary = a_service(olga, team, "next", request=NEW, start_seconds=30)
    all_rounds(node, service, seconds=0)
    service = split(service, olga, canary.label, 20)
    a_round(canary)
    settle(node)
    check_all(is_healthy=False, seconds=2)
    assert ready_targets([canary.pk])[canary.pk] == {}
    service = a_round(service, seconds=20)
    assert service.canary_percent == 20, "it may still become ready"
    a_round(canary, seconds=31)
    service = a_round(service, seconds=31)
    assert service.canary_percent == 0
    assert "did not answer at /health for" in sentence(service.canary_problem)


def test_a_canary_has_a_copy_while_it_is_to_get_calls(olga, team, node):
    service = a_service(olga, team)
    canary = a_service(olga, team, "next", request=NEW, min_copies=0, cool_down_seconds=0)
    assert a_round(canary).copies == 0
    service = split(service, olga, canary.label, 5)
    assert a_round(canary).copies == 1
    split(service, olga, None, 0)
    canary = a_round(canary, seconds=1)
    assert a_round(canary, seconds=2).copies == 0


def test_a_canary_that_ends_leaves_its_service_all_calls(olga, team, node):
    service, canary = a_service(olga, team), a_service(olga, team, "next", request=NEW)
    service = split(service, olga, canary.label, 20)
    service_end(service=canary, actor=olga)
    assert refused(promote, service, olga) == "canary_invalid"
    service = a_round(service)
    assert (service.canary, service.canary_percent) == (None, 0)


def test_a_promoted_canary_ends_once_its_request_is_on_all_copies(olga, team, node):
    service = a_service(olga, team, min_copies=2, max_copies=3)
    canary = a_service(olga, team, "next", request=NEW, port=8000)
    all_rounds(node, service, canary, seconds=0)
    old = [copy.job_id for copy in copies_of(service)]
    service = split(service, olga, canary.label, 50)
    (copy,) = copies_of(canary)
    # What it answers now comes over: that many calls need a third copy.
    counts = CallCounts(0, {copy.job_id: 20}, [0] * 36)
    loads_report(process="p", counts={canary.pk: counts}, now=timezone.now())
    service = promote(service, olga)
    assert (service.generation, service.port) == (2, 8000)
    assert service.request["command"] == ["python", "new.py"]
    (line,) = AuditEntry.objects.filter(action="service_promote")
    assert (line.before["generation"], line.after["generation"]) == (1, 2)
    assert a_round(service).copies == 3
    seen = []
    for seconds in range(0, 90, 10):
        all_rounds(node, service, canary, seconds=seconds)
        service.refresh_from_db()
        canary.refresh_from_db()
        ready = ready_targets([service.pk, canary.pk])
        seen.append((len(ready[service.pk]), len(ready[canary.pk])))
        assert len(ready[service.pk]) >= 2, seen
        if canary.ended_at is None:
            assert (service.canary_percent, len(ready[canary.pk])) == (50, 1), seen
        else:
            assert not set(ready[service.pk]) & set(old), "it ends after the last old copy"
        if service.canary is None:
            break
    assert canary.ended_at is not None
    (line,) = AuditEntry.objects.filter(action="service_end")
    assert (line.noun_id, line.actor) == (canary.label, "system")
    assert (service.canary, service.is_canary_promoted) == (None, False)
    assert {copy.job.request["command"][-1] for copy in copies_of(service)} == {"new.py"}
    assert {copy.job.request["apps"][0] for copy in copies_of(service)} == {"llm:8000"}


def test_a_promoted_canary_goes_on_until_its_calls_have_copies_to_go_to(olga, team, node):
    service = a_service(olga, team, min_copies=0, max_copies=2)
    canary = a_service(olga, team, "next", request=NEW)
    all_rounds(node, service, canary, seconds=0)
    service = split(service, olga, canary.label, 100)
    (copy,) = copies_of(canary)
    counts = CallCounts(0, {copy.job_id: 1}, [0] * 36)
    loads_report(process="p", counts={canary.pk: counts}, now=timezone.now())
    service = a_round(promote(service, olga))
    canary.refresh_from_db()
    assert (service.copies, canary.ended_at) == (1, None), "it has none yet"
    settle(node)
    check_all()
    service = a_round(service)
    canary.refresh_from_db()
    assert canary.ended_at is not None
    assert a_round(service).canary is None


def test_a_request_that_changes_during_a_promotion_leaves_the_canary_as_it_is(olga, team, node):
    service = a_service(olga, team)
    canary = a_service(olga, team, "next", request=NEW)
    old = service.request
    service = promote(split(service, olga, canary.label, 5), olga)
    service = service_change(
        service=service, actor=olga, values=values_of(service), body=old, limits=request_limits()
    )
    assert (service.generation, service.request) == (3, old)
    assert (service.canary, service.canary_percent) == (canary, 5)
    assert not service.is_canary_promoted, "it would end once all copies run the old request"


def test_a_canary_with_another_health_path_is_not_promoted(olga, team, node):
    service = a_service(olga, team)
    canary = a_service(olga, team, "next", request=NEW, health_path="/ready")
    service = split(service, olga, canary.label, 5)
    assert refused(promote, service, olga) == "canary_invalid"
    service.refresh_from_db()
    assert (service.generation, service.is_canary_promoted) == (1, False)


def test_rest_splits_shows_and_promotes(olga, team, node):
    service, canary = a_service(olga, team), a_service(olga, team, "next", request=NEW)
    all_rounds(node, service, canary, seconds=0)
    client, address = APIClient(), f"/api/v1/services/{service.label}"
    client.force_login(olga)
    chosen = {"canary": canary.label, "canary_percent": 30}
    shown = client.patch(address, chosen, format="json", HTTP_IF_MATCH='"1"').json()
    assert (shown["canary"], shown["canary_percent"]) == (canary.label, 30), shown
    assert (shown["canary_ready"], shown["canary_problem"], shown["version"]) == (1, "", 2)
    loads_report(
        process="p",
        counts={canary.pk: CallCounts(0, {}, [6] + [0] * 35, errors=4)},
        now=timezone.now(),
    )
    shown = client.get(address).json()
    assert (shown["busyness"]["failed_calls"], shown["canary_busyness"]["failed_calls"]) == (0, 4)
    assert shown["canary_busyness"]["calls_per_second"] == pytest.approx(0.1)
    assert client.get(f"/api/v1/services/{canary.label}").json()["canary_busyness"] is None
    stale = client.post(f"{address}/promote", HTTP_IF_MATCH='"1"')
    assert stale.status_code == 412
    promoted = client.post(f"{address}/promote").json()
    assert (promoted["is_canary_promoted"], promoted["generation"]) == (True, 2)
    assert promoted["request"]["command"] == ["python", "new.py"]
    gone = client.patch(address, {"canary": ""}, format="json", HTTP_IF_MATCH='"3"').json()
    assert (gone["canary"], gone["canary_percent"], gone["is_canary_promoted"]) == ("", 0, False)
    wrong = client.patch(address, {"canary": "S-0"}, format="json", HTTP_IF_MATCH='"4"')
    assert (wrong.status_code, wrong.json()["code"]) == (400, "canary_invalid")
