"""No stale change overwrites another, and no list is sent twice."""

from __future__ import annotations

import pytest
from django.core.cache import cache
from rest_framework.test import APIClient

from portal.api.protocol.throttling import CallThrottle
from portal.catalogue.models import Template
from portal.inventory.models import Node
from tests.support.rows import a_job, a_node, a_project, a_request, a_user

pytestmark = pytest.mark.django_db


@pytest.fixture
def root() -> APIClient:
    cache.clear()
    a_node("n1")
    client = APIClient()
    client.force_login(a_user("root", is_superuser=True))
    return client


def test_a_node_is_changed_from_the_version_that_was_read(root):
    seen = root.get("/api/v1/nodes/n1")
    assert seen["ETag"] == f'"{seen.json()["version"]}"'
    wanted = {"schedulable": False, "cordon_reason": "fan", "labels": ["nvme", "zone=a"]}
    address, headers = "/api/v1/nodes/n1", {"If-Match": seen["ETag"]}
    first = root.patch(address, wanted, format="json", headers=headers)
    assert first.status_code == 200 and first["ETag"] != seen["ETag"]
    assert (first.json()["labels"], first.json()["cordon_reason"]) == (["nvme", "zone=a"], "fan")
    stale = root.patch(address, {"labels": []}, format="json", headers=headers)
    problem = stale.json()
    assert (stale.status_code, problem["code"]) == (412, "version_stale")
    assert problem["current"] == first.json() | {"last_seen_at": problem["current"]["last_seen_at"]}
    assert (problem["sent"], stale["ETag"]) == ({"labels": []}, first["ETag"])
    assert Node.objects.get(name="n1").labels == ["nvme", "zone=a"]
    missing = root.patch(address, {"labels": []}, format="json")
    assert (missing.status_code, missing.json()["code"]) == (428, "version_missing")


def test_a_change_of_a_node_is_all_or_nothing(root):
    headers = {"If-Match": root.get("/api/v1/nodes/n1")["ETag"]}
    wanted = {"labels": ["nvme"], "taints": ["gpu=broken"]}
    answer = root.patch("/api/v1/nodes/n1", wanted, format="json", headers=headers)
    assert (answer.status_code, answer.json()["code"]) == (400, "reason_missing")
    assert Node.objects.get(name="n1").labels == []


def test_a_nodes_report_does_not_make_a_version_stale(root):
    before = root.get("/api/v1/nodes/n1")["ETag"]
    Node.objects.filter(name="n1").update(observed_hash="x", acked_seq=7)
    assert root.get("/api/v1/nodes/n1")["ETag"] == before


def test_an_action_with_a_stale_version_changes_nothing(root):
    body, old = {"reason": "fan"}, {"If-Match": '"old"'}
    answer = root.post("/api/v1/nodes/n1/cordon", body, format="json", headers=old)
    assert answer.status_code == 412
    assert Node.objects.get(name="n1").schedulable is True
    assert root.post("/api/v1/nodes/n1/cordon", body, format="json").status_code == 200


def test_a_stale_quota_is_refused_with_the_quota_as_it_is(root):
    a_project("vision")
    address = "/api/v1/quotas/vision"
    old = {"If-Match": root.get(address)["ETag"]}
    assert root.put(address, {"limit_units": 7}, format="json", headers=old).status_code == 200
    stale = root.put(address, {"limit_units": 9}, format="json", headers=old)
    problem = stale.json()
    assert (stale.status_code, problem["current"]["limit_units"]) == (412, 7)
    assert problem["sent"] == {"limit_units": 9}


def test_a_template_is_changed_from_the_version_that_was_read(root):
    project = a_project("vision")
    row = Template.objects.create(project=project, name="t", request=a_request(project))
    address = f"/api/v1/templates/{row.pk}"
    old = {"If-Match": root.get(address)["ETag"]}
    first = root.patch(address, {"description": "one"}, format="json", headers=old)
    assert first.status_code == 200
    stale = root.patch(address, {"description": "two"}, format="json", headers=old)
    problem = stale.json()
    assert (stale.status_code, problem["current"]["description"]) == (412, "one")
    assert (problem["sent"], stale["ETag"]) == ({"description": "two"}, first["ETag"])


@pytest.mark.parametrize("path", ["jobs", "nodes", "projects", "quotas", "templates"])
def test_a_list_that_did_not_change_is_not_sent_again(root, path):
    first = root.get(f"/api/v1/{path}")
    again = root.get(f"/api/v1/{path}", headers={"If-None-Match": first["ETag"]})
    assert (first.status_code, again.status_code, again.content) == (200, 304, b"")


def test_a_list_that_changed_is_sent(root):
    first = root.get("/api/v1/jobs")
    olga = a_user("olga")
    a_job(olga, a_project("vision", olga))
    again = root.get("/api/v1/jobs", headers={"If-None-Match": first["ETag"]})
    assert again.status_code == 200 and len(again.json()["results"]) == 1


def test_who_calls_too_often_is_told_when_to_come_back(root, monkeypatch):
    monkeypatch.setattr(CallThrottle, "rate", "2/min", raising=False)
    monkeypatch.setattr(CallThrottle, "timer", staticmethod(lambda: 630.0))
    answers = [root.get("/api/v1/nodes") for _ in range(3)]
    assert [answer.status_code for answer in answers] == [200, 200, 429]
    assert answers[-1]["Content-Type"] == "application/problem+json"
    assert answers[-1]["Retry-After"] == "31"
