"""Bad input through REST: each gets a precise code and field, and changes nothing."""

from __future__ import annotations

import json
from urllib.parse import quote

import pytest
from django.core.cache import cache
from django.test import override_settings
from rest_framework.test import APIClient

from portal.accounts.models import Project
from portal.allocations.models import Allocation
from portal.api.protocol.throttling import SubmitThrottle
from portal.audit.models import AuditEntry, Event
from portal.jobs.models import Attempt, Job
from portal.platform import Platform
from scheduler.core.request import InvalidRequest, RequestLimits, parse_request
from tests.support.rows import a_node, a_project, a_request, a_user

pytestmark = pytest.mark.django_db
COUNTED = (Job, Attempt, Allocation, Event, AuditEntry)


@pytest.fixture
def client() -> APIClient:
    cache.clear()
    a_node("n1")
    user = a_user("olga")
    a_project("vision", user)
    a_project("speech", a_user("ott"))
    client = APIClient()
    client.force_login(user)
    return client


def _counts() -> list[int]:
    return [model.objects.count() for model in COUNTED]


def _body(**fields) -> dict:
    return a_request(Project.objects.get(slug="vision")) | fields


def _send(client: APIClient, raw: bytes, content_type: str = "application/json"):
    return client.generic("POST", "/api/v1/jobs", raw, content_type)


BAD = {
    "unknown profile": ({"device": {"mig": "9g.999gb"}}, "device", "impossible"),
    "profile the board lacks": ({"device": {"mig": "1g.5gb"}}, "device", "impossible"),
    "no replicas": ({"replicas": 0}, "replicas", "out_of_range"),
    "too many replicas": ({"replicas": 1000}, "replicas", "out_of_range"),
    "negative time limit": ({"time_limit": -1}, "time_limit", "invalid_value"),
    "foreign project": ({"project": "speech"}, "project", "project_unknown"),
    "unknown project": ({"project": "nobody"}, "project", "project_unknown"),
    "command no list": ({"command": "python sum.py"}, "command", "wrong_type"),
    "reserved env": ({"env": {"NVIDIA_X": "all"}}, "env.NVIDIA_X", "reserved_name"),
    "two ways": ({"device": {"gpus": 1, "mig": "1g.18gb"}}, "device", "invalid_combination"),
    "unknown field": ({"privileged": True}, "privileged", "unknown_field"),
}


@pytest.mark.parametrize("case", BAD)
def test_a_bad_request_names_its_field_and_changes_nothing(client: APIClient, case: str):
    fields, field, code = BAD[case]
    before = _counts()
    answer = client.post("/api/v1/jobs", _body(**fields), format="json")
    problem = answer.json()
    assert answer.status_code == 400, problem
    assert answer["Content-Type"] == "application/problem+json"
    assert [(e["field"], e["code"]) for e in problem["errors"]] == [(field, code)], problem
    assert problem["errors"][0]["message"]
    assert _counts() == before


def test_codes_are_those_of_the_parser(client: APIClient):
    body = _body(replicas=0, command="x")
    with pytest.raises(InvalidRequest) as refused:
        parse_request(body, RequestLimits())
    said = client.post("/api/v1/jobs", body, format="json").json()["errors"]
    told = [(str(e.field), str(e.code), e.sentence) for e in refused.value.errors]
    assert [(e["field"], e["code"], e["message"]) for e in said] == told


@override_settings(PLATFORM=Platform(image_allow="registry.example/*"))
def test_an_image_outside_the_allow_list(client: APIClient):
    before = _counts()
    answer = client.post("/api/v1/jobs", _body(image="evil/miner:1"), format="json")
    assert answer.status_code == 400
    assert [(e["field"], e["code"]) for e in answer.json()["errors"]] == [("image", "not_allowed")]
    assert _counts() == before


RAW = {
    "broken": (b'{"project": ', 400, "malformed"),
    "not text": (b"\xff\xfe", 400, "malformed"),
    "not a number": (b'{"replicas": NaN}', 400, "malformed"),
    "very deep": (b"[" * 200_000, 400, "malformed"),
    "zero byte": (b'{"name": "a\\u0000b"}', 400, "malformed"),
    "half a pair": (b'{"name": "\\ud800"}', 400, "malformed"),
    "two megabytes": (json.dumps({"name": "x" * (2 << 20)}).encode(), 413, "too_large"),
}


@pytest.mark.parametrize("case", RAW)
def test_a_body_that_is_no_request(client: APIClient, case: str):
    raw, status, code = RAW[case]
    before = _counts()
    answer = _send(client, raw)
    assert (answer.status_code, answer.json()["code"]) == (status, code)
    assert answer["Content-Type"] == "application/problem+json"
    assert _counts() == before


@pytest.mark.parametrize("raw", [b"[]", b'"text"', b"7", b"null"])
def test_json_that_is_no_object(client: APIClient, raw: bytes):
    assert _send(client, raw).status_code == 400


def test_only_json_is_read(client: APIClient):
    answer = _send(client, b"project=vision", "application/x-www-form-urlencoded")
    assert (answer.status_code, answer.json()["code"]) == (415, "unsupported_media_type")


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("status=flying", "status"),
        ("name=" + "x" * 64, "name"),
        ("project=%00", "project"),
    ],
)
def test_bad_filters(client: APIClient, query: str, field: str):
    answer = client.get(f"/api/v1/jobs?{query}")
    assert answer.status_code == 400
    assert answer.json()["errors"][0]["field"].startswith(field)


@pytest.mark.parametrize("cursor", ["x", "cD1hYmM=", "cD0xJTAw"])
def test_bad_cursors(client: APIClient, cursor: str):
    assert client.get("/api/v1/jobs", {"cursor": cursor}).status_code == 404


@pytest.mark.parametrize("name", ["%(job)s", "%", "%%s", "{0}", "quota.left", "nothing"])
def test_a_name_that_looks_like_a_text_to_fill_in(client: APIClient, name: str):
    answer = client.get(f"/api/v1/nodes/{quote(name)}")
    assert answer.status_code == 404
    assert answer.json()["detail"] == f"There is no node '{name}'"


def test_a_method_not_offered(client: APIClient):
    answer = client.delete("/api/v1/jobs")
    assert (answer.status_code, answer.json()["code"]) == (405, "method_not_allowed")


def test_too_many_submits_are_slowed(client: APIClient, monkeypatch):
    # A slow machine takes longer than the minute that the calls are counted over.
    monkeypatch.setattr(SubmitThrottle, "timer", staticmethod(lambda: 630.0))
    monkeypatch.setattr(SubmitThrottle, "rate", "120/min", raising=False)
    for _ in range(120):
        assert client.post("/api/v1/jobs", {}, format="json").status_code == 400
    answer = client.post("/api/v1/jobs", {}, format="json")
    assert answer.status_code == 429
    assert int(answer["Retry-After"]) > 0
