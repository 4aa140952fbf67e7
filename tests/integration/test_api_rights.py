"""Who may call which route. The matrix has a row for every route and method, or this fails."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from django.core.cache import cache
from django.test import Client
from pytest_django.plugin import DjangoDbBlocker
from rest_framework.test import APIClient

from portal.api.urls import urlpatterns
from portal.inventory.models import Node
from portal.inventory.versions import node_version
from tests.support.module_rows import module_rows
from tests.support.rights import KINDS, OUTSIDE, PEOPLE, World, a_world, offered
from tests.support.rows import a_user

pytestmark = pytest.mark.django_db

# (route, method): the status for PEOPLE, that is a viewer of the project, the member who owns what
# there is, a member of another project, an admin of the project, a platform admin who is in none.
# A caller without an account, a node, and an expired token get 401 everywhere. Changes come with a
# body that works.
ROWS: dict[tuple[str, str], tuple[int, int, int, int, int]] = {
    # A question that changes nothing.
    ("advice", "post"): (200, 200, 200, 200, 200),
    ("prices", "get"): (200, 200, 200, 200, 200),
    ("prices", "put"): (403, 403, 403, 403, 200),
    ("disputed-claim-accept", "post"): (403, 403, 403, 403, 204),
    ("disputed-claim-dismiss", "post"): (403, 403, 403, 403, 204),
    ("disputed-claims", "get"): (403, 403, 403, 403, 200),
    ("event-stream", "get"): (200, 200, 200, 200, 200),
    ("gpu-pin", "post"): (403, 403, 403, 403, 200),
    ("gpu-unpin", "post"): (403, 403, 403, 403, 200),
    ("gpus", "get"): (200, 200, 200, 200, 200),
    ("job", "get"): (200, 200, 404, 200, 200),
    ("job-apps", "get"): (200, 200, 404, 200, 200),
    ("app-guest", "put"): (403, 200, 404, 403, 403),
    ("app-guest", "delete"): (403, 204, 404, 204, 204),
    ("guest-apps", "get"): (200, 200, 200, 200, 200),
    ("app-tokens", "get"): (200, 200, 200, 200, 200),
    # Of the project: for those who may run jobs in it.
    ("app-tokens", "post"): (403, 201, 404, 201, 403),
    ("app-token", "delete"): (404, 204, 404, 404, 404),
    ("job-approve", "post"): (403, 403, 404, 409, 409),
    ("job-cancel", "post"): (403, 200, 404, 200, 200),
    ("job-events", "get"): (200, 200, 404, 200, 200),
    ("job-extend", "post"): (403, 409, 404, 409, 409),
    ("job-hold", "post"): (403, 200, 404, 200, 200),
    ("job-limit-request", "post"): (403, 409, 404, 403, 403),
    ("limit-request-decline", "post"): (404, 404, 404, 404, 200),
    ("limit-request-grant", "post"): (404, 404, 404, 404, 200),
    ("limit-requests", "get"): (200, 200, 200, 200, 200),
    ("job-merged-log", "get"): (200, 200, 404, 200, 200),
    ("job-metrics", "get"): (200, 200, 404, 200, 200),
    ("job-telemetry", "get"): (200, 200, 404, 200, 200),
    ("job-rank-network", "get"): (200, 200, 404, 200, 200),
    ("job-time-profile", "get"): (200, 200, 404, 200, 200),
    ("job-logs", "get"): (404, 404, 404, 404, 404),
    ("job-ranks", "get"): (200, 200, 404, 200, 200),
    ("job-refuse", "post"): (403, 403, 404, 409, 409),
    ("job-release", "post"): (403, 200, 404, 200, 200),
    ("job-replace", "post"): (403, 201, 404, 403, 403),
    ("job-retry", "post"): (403, 409, 404, 409, 409),
    ("job-trees", "get"): (200, 200, 404, 200, 200),
    ("jobs", "get"): (200, 200, 200, 200, 200),
    ("jobs", "post"): (400, 201, 400, 201, 400),
    ("jobs-bulk", "post"): (400, 201, 400, 201, 400),
    ("jobs-cancel", "post"): (200, 200, 200, 200, 200),
    ("me", "get"): (200, 200, 200, 200, 200),
    # There is no such measurement.
    ("pair-measurement-clear", "post"): (403, 403, 403, 403, 404),
    ("pair-measurements", "get"): (403, 403, 403, 403, 200),
    ("pair-measurements", "post"): (403, 403, 403, 403, 409),
    ("node", "get"): (200, 200, 200, 200, 200),
    ("node", "patch"): (403, 403, 403, 403, 200),
    ("node-allow-mass-removal", "post"): (403, 403, 403, 403, 200),
    ("node-cordon", "post"): (403, 403, 403, 403, 200),
    ("node-join-token", "post"): (403, 403, 403, 403, 201),
    ("node-retire", "post"): (403, 403, 403, 403, 200),
    ("node-revoke", "post"): (403, 403, 403, 403, 200),
    ("node-unfreeze", "post"): (403, 403, 403, 403, 409),
    ("node-uncordon", "post"): (403, 403, 403, 403, 200),
    ("array", "get"): (200, 200, 404, 200, 200),
    ("array-metrics", "get"): (200, 200, 404, 200, 200),
    ("array-approve", "post"): (403, 403, 404, 409, 409),
    ("array-refuse", "post"): (403, 403, 404, 409, 409),
    ("array-cancel", "post"): (403, 200, 404, 200, 200),
    ("array-retry", "post"): (403, 409, 404, 409, 409),
    ("availability", "get"): (200, 200, 200, 200, 200),
    ("nodes", "get"): (200, 200, 200, 200, 200),
    ("nodes", "post"): (403, 403, 403, 403, 201),
    ("partition-preview", "get"): (403, 403, 403, 403, 200),
    ("project", "get"): (200, 200, 404, 200, 200),
    # Sent without its query: a member of the project comes that far.
    ("project-file", "put"): (403, 400, 404, 400, 403),
    ("project-files-have", "post"): (403, 200, 404, 200, 403),
    ("project-images", "get"): (200, 200, 404, 200, 200),
    ("project-images", "put"): (403, 403, 404, 403, 200),
    ("project-member", "delete"): (403, 403, 404, 204, 204),
    ("project-member", "put"): (403, 403, 404, 200, 200),
    ("project-quota", "get"): (200, 200, 404, 200, 200),
    ("project-quota", "put"): (403, 403, 404, 403, 200),
    ("project-egress", "put"): (403, 403, 403, 403, 200),
    ("project-storage", "get"): (200, 200, 404, 200, 200),
    ("project-storage", "put"): (403, 403, 404, 403, 200),
    ("project-commits", "get"): (200, 200, 404, 200, 200),
    ("project-trees", "get"): (200, 200, 404, 200, 200),
    ("project-trees", "post"): (403, 201, 404, 201, 403),
    ("registries", "get"): (403, 200, 404, 200, 200),
    ("registry", "delete"): (403, 403, 404, 204, 204),
    ("registry", "put"): (403, 403, 404, 200, 200),
    ("project-secret", "delete"): (403, 403, 404, 204, 204),
    ("project-secret", "put"): (403, 403, 404, 200, 200),
    ("project-secrets", "get"): (403, 200, 404, 200, 200),
    ("projects", "get"): (200, 200, 200, 200, 200),
    ("projects", "post"): (403, 403, 403, 403, 201),
    ("quotas", "get"): (200, 200, 200, 200, 200),
    ("secret", "delete"): (404, 204, 404, 404, 404),
    ("secret", "put"): (200, 200, 200, 200, 200),
    ("secrets", "get"): (200, 200, 200, 200, 200),
    ("slices", "get"): (200, 200, 200, 200, 200),
    ("template", "delete"): (403, 204, 404, 204, 204),
    ("template", "get"): (200, 200, 404, 200, 200),
    ("template", "patch"): (403, 200, 404, 200, 200),
    ("templates", "get"): (200, 200, 200, 200, 200),
    ("templates", "post"): (403, 201, 404, 201, 201),
    ("token", "delete"): (404, 204, 404, 404, 404),
    ("tokens", "get"): (200, 200, 200, 200, 200),
    ("tokens", "post"): (201, 201, 201, 201, 201),
    ("tree", "delete"): (403, 204, 404, 204, 204),
    ("tree", "get"): (200, 200, 404, 200, 200),
    ("tree-archive", "get"): (200, 200, 404, 200, 200),
    # Without a path.
    ("tree-content", "get"): (400, 400, 404, 400, 400),
    ("tree-files", "get"): (200, 200, 404, 200, 200),
    ("usage", "get"): (200, 200, 200, 200, 200),
    ("user-quota", "get"): (404, 200, 404, 200, 200),
    ("user-quota", "put"): (403, 403, 404, 200, 200),
    ("volume", "delete"): (403, 403, 403, 403, 204),
    ("volume", "get"): (200, 200, 404, 200, 200),
    ("volume", "patch"): (403, 403, 403, 403, 200),
    ("volumes", "get"): (200, 200, 200, 200, 200),
    ("volumes", "post"): (403, 403, 403, 403, 201),
    ("webhook", "delete"): (404, 204, 404, 404, 404),
    ("webhook", "get"): (404, 200, 404, 404, 404),
    ("webhook-deliveries", "get"): (404, 200, 404, 404, 404),
    ("webhook-redeliver", "post"): (404, 202, 404, 404, 404),
    ("webhook-test", "post"): (404, 202, 404, 404, 404),
    ("service", "delete"): (403, 204, 404, 204, 204),
    ("service", "get"): (200, 200, 404, 200, 200),
    ("service", "patch"): (403, 200, 404, 200, 200),
    ("service-promote", "post"): (403, 400, 404, 403, 403),
    ("services", "get"): (200, 200, 200, 200, 200),
    ("services", "post"): (400, 201, 400, 201, 400),
    ("webhooks", "get"): (200, 200, 200, 200, 200),
    ("webhooks", "post"): (403, 403, 404, 201, 201),
    ("what-if", "get"): (403, 403, 403, 403, 200),
    ("what-if-cancel", "post"): (403, 403, 403, 403, 200),
    ("what-ifs", "get"): (403, 403, 403, 403, 200),
    ("what-ifs", "post"): (403, 403, 403, 403, 202),
}


@pytest.fixture(scope="module")
def rows(django_db_setup: None, django_db_blocker: DjangoDbBlocker) -> Iterator[World]:
    with module_rows(django_db_blocker):
        yield a_world()


@pytest.fixture
def world(rows: World) -> World:
    cache.clear()
    return rows


def body_of(world: World, route: str) -> dict[str, Any]:
    request = {
        "project": world.project.slug,
        "name": "again",
        "image": "tessera-example:latest",
        "command": ["true"],
        "device": {"mig": "2g.35gb"},
    }
    return {
        "advice": {"model": "llama3-8b", "task": "lora", "batch": 8},
        "jobs": request,
        "jobs-bulk": {"jobs": [request, request | {"name": "other"}]},
        "jobs-cancel": {"ids": [world.job.label]},
        "job-extend": {"by": "1h"},
        "job-replace": {"changes": {"time_limit": "2h"}},
        "job-hold": {"because": "the data is not there"},
        "array-refuse": {"because": "not this week"},
        "job-refuse": {"because": "not this week"},
        "limit-request-decline": {"answer": "not this week"},
        "nodes": {"name": "new-node"},
        "node": {"labels": ["nvme"]},
        "node-cordon": {"reason": "because"},
        "gpu-pin": {"reason": "because"},
        "pair-measurements": {"nodes": [world.node.name, "other"], "project": "vision"},
        "prices": {"currency": "EUR", "prices": [{"board": "H200-141GB", "amount": "2.5"}]},
        "projects": {"slug": "new-project"},
        "project-images": {"rule": "listed", "patterns": ["pytorch/*"]},
        "project-files-have": {"files": [{"sha256": "a" * 64, "size": 1}]},
        "project-member": {"role": "admin"},
        "project-egress": {"egress": "internet"},
        "project-storage": {"stored_gib": 5, "kept_days": None},
        "project-trees": {"files": []},
        "project-quota": {"limit_units": 1},
        "user-quota": {"limit_units": 1},
        "templates": {"name": "mine", "project": world.project.slug, "request": request},
        "template": {"description": "better"},
        "volumes": {"name": "b", "root": "datasets", "projects": [world.project.slug]},
        "volume": {"description": "better"},
        "secret": {"value": "a new value"},
        "service": {"max_copies": 2},
        "services": {"name": "llm", "request": request},
        "registry": {"user": "robot", "password": "another password"},
        "project-secret": {"value": "a new value"},
        "app-tokens": {"name": "client", "project": "vision"},
        "tokens": {"name": "laptop", "scope": "read", "days": 1},
        "webhooks": {"name": "ci", "url": "https://93.184.215.14/", "project": "vision"},
        "what-ifs": {"days": 1, "changes": [{"kind": "without", "node": world.node.name}]},
    }.get(route, {})


def seen_of(world: World, route: str) -> str:
    """The version for If-Match."""
    if route == "node" or route.startswith("node-"):
        return f'"{node_version(Node.objects.get(pk=world.node.pk))}"'
    return '"0"' if route == "project-images" else '"1"'


def statuses(world: World, route: str, method: str, kinds: tuple[str, ...]) -> tuple[int, ...]:
    (pattern,) = [str(p.pattern) for p in urlpatterns if p.name == route]
    address = world.address(f"api/v1/{pattern}")
    body, headers = body_of(world, route), {"If-Match": seen_of(world, route)}
    return tuple(world.status(kind, method, address, body, **headers) for kind in kinds)


def test_every_route_and_method_has_a_row():
    assert offered() == set(ROWS)


@pytest.mark.parametrize(("route", "method"), sorted(ROWS), ids=str)
def test_matrix(world: World, route: str, method: str):
    assert set(KINDS) == {*PEOPLE, *OUTSIDE}
    assert statuses(world, route, method, PEOPLE) == ROWS[route, method]
    assert statuses(world, route, method, OUTSIDE) == (401, 401, 401)


def test_the_schema_is_open_and_the_rest_is_a_problem():
    client = Client()
    assert client.get("/api/v1/schema/").status_code == 200
    assert client.get("/api/v1/docs/").status_code == 200
    lost = client.get("/api/v1/nothing/here")
    assert lost.status_code == 404
    assert lost["Content-Type"] == "application/problem+json"
    assert lost.json()["code"] == "not_found"


def test_a_list_shows_nothing_of_another_project(world: World):
    client = world.client("foreign")
    assert client.get("/api/v1/jobs").json()["results"] == []
    lists = ("quotas", "projects", "templates", "webhooks", "usage", "volumes", "services")
    text = b"".join(client.get(f"/api/v1/{name}").content for name in lists)
    assert b"vision" not in text and b"olga" not in text


def test_foreign_and_unknown_jobs_answer_alike(world: World):
    client = world.client("foreign")
    foreign = client.get(f"/api/v1/jobs/{world.job.label}").json()
    unknown = client.get("/api/v1/jobs/J-999999").json()
    own = {"instance": "", "request_id": ""}
    assert foreign | own == unknown | own


@pytest.mark.parametrize("ref", ["J-99999999999999999999", "x", "J-", "J-1;", "%00", "１"])
def test_odd_job_names_are_not_found(world: World, ref: str):
    assert world.client("member").get(f"/api/v1/jobs/{ref}").status_code == 404


def test_a_platform_admin_sees_and_may_all(world: World):
    client = APIClient()
    client.force_login(a_user("boss", is_superuser=True))
    assert len(client.get("/api/v1/jobs").json()["results"]) == 1
    made = client.post("/api/v1/nodes", {"name": "n2"}, format="json")
    assert made.status_code == 201 and len(made.json()["join_token"]) > 40
    assert client.post("/api/v1/nodes/n2/retire").status_code == 200
    assert client.post("/api/v1/nodes/n2/cordon", {"reason": "x"}, format="json").status_code == 409
