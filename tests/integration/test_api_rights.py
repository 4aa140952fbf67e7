"""Who may call which route. The matrix has a row for every route and method, or this fails."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest
from django.core.cache import cache
from django.test import Client
from rest_framework.test import APIClient

from portal.accounts.models import ApiToken, Membership, Project, Role, Scope, User
from portal.accounts.services import token_create
from portal.api.urls import urlpatterns
from portal.jobs.models import Job
from tests.rows import a_job, a_node, a_project, a_user

pytestmark = pytest.mark.django_db
METHODS = ("get", "post", "put", "patch", "delete")
OPEN = {"schema", "docs"}
NO_MATRIX = {"no-route"}

# (route, method): status for the owner (a member), a viewer of the same project, a member of
# another project. Anonymous callers get 401 everywhere. Mutations that the owner may make come
# with a body that works.
ROWS: dict[tuple[str, str], tuple[int, int, int]] = {
    ("jobs", "get"): (200, 200, 200),
    ("jobs", "post"): (201, 400, 400),
    ("job", "get"): (200, 200, 404),
    ("job-cancel", "post"): (200, 403, 404),
    ("job-replace", "post"): (201, 403, 404),
    ("job-hold", "post"): (200, 403, 404),
    ("job-release", "post"): (200, 403, 404),
    ("job-approve", "post"): (403, 403, 404),
    ("job-refuse", "post"): (403, 403, 404),
    ("job-logs", "get"): (404, 404, 404),
    ("job-events", "get"): (200, 200, 404),
    ("nodes", "get"): (200, 200, 200),
    ("nodes", "post"): (403, 403, 403),
    ("node", "get"): (200, 200, 200),
    ("node-cordon", "post"): (403, 403, 403),
    ("node-uncordon", "post"): (403, 403, 403),
    ("node-retire", "post"): (403, 403, 403),
    ("node-join-token", "post"): (403, 403, 403),
    ("node-allow-mass-removal", "post"): (403, 403, 403),
    ("gpus", "get"): (200, 200, 200),
    ("gpu-pin", "post"): (403, 403, 403),
    ("gpu-unpin", "post"): (403, 403, 403),
    ("partition-preview", "get"): (403, 403, 403),
    ("slices", "get"): (200, 200, 200),
    ("projects", "get"): (200, 200, 200),
    ("projects", "post"): (403, 403, 403),
    ("project", "get"): (200, 200, 404),
    ("project-member", "put"): (403, 403, 404),
    ("project-member", "delete"): (403, 403, 404),
    ("quotas", "get"): (200, 200, 200),
    ("project-quota", "get"): (200, 200, 404),
    ("project-quota", "put"): (403, 403, 404),
    ("user-quota", "get"): (404, 404, 404),
    ("user-quota", "put"): (403, 403, 404),
    ("tokens", "get"): (200, 200, 200),
    ("tokens", "post"): (201, 201, 201),
    ("token", "delete"): (204, 404, 404),
    ("what-ifs", "get"): (403, 403, 403),
    ("what-ifs", "post"): (403, 403, 403),
    ("what-if", "get"): (403, 403, 403),
    ("what-if-cancel", "post"): (403, 403, 403),
}


@dataclass
class World:
    project: Project
    job: Job
    token: ApiToken
    node: str
    owner: User
    viewer: User
    other: User

    def address(self, route: str) -> str:
        names = {
            "job": self.job.label,
            "node": self.node,
            "gpu": f"GPU-{self.node}-0",
            "project": self.project.slug,
            "user": self.owner.username,
            "token": self.token.token_key,
            "what_if": "1",
        }
        (pattern,) = [str(p.pattern) for p in urlpatterns if p.name == route]
        for name, value in names.items():
            pattern = pattern.replace(f"<str:{name}>", value)
        assert "<" not in pattern, "a route with a part that the matrix cannot fill"
        return f"/api/v1/{pattern}"

    def body(self, route: str) -> dict[str, Any]:
        return {
            "jobs": {
                "project": self.project.slug,
                "name": "again",
                "image": "tessera-example:latest",
                "command": ["true"],
                "device": {"mig": "2g.35gb"},
            },
            "job-replace": {"changes": {"time_limit": "2h"}},
            "job-hold": {"because": "the data is not there"},
            "job-refuse": {"because": "not this week"},
            "nodes": {"name": "new-node"},
            "node-cordon": {"reason": "because"},
            "gpu-pin": {"reason": "because"},
            "projects": {"slug": "new-project"},
            "project-member": {"role": "admin"},
            "project-quota": {"limit_units": 1},
            "user-quota": {"limit_units": 1},
            "tokens": {"name": "laptop", "scope": "read", "days": 1},
        }.get(route, {})


@pytest.fixture
def world() -> World:
    cache.clear()
    owner, viewer, other = a_user("olga"), a_user("vera"), a_user("ott")
    project = a_project("vision", owner)
    Membership.objects.create(project=project, user=viewer, role=Role.VIEWER)
    a_project("speech", other, role=Role.ADMIN)
    node = a_node("n1").row
    token, _ = token_create(user=owner, name="t", scope=Scope.READ, ttl=timedelta(days=1))
    return World(project, a_job(owner, project), token, node.name, owner, viewer, other)


def _call(user: User | None, world: World, route: str, method: str) -> int:
    client = APIClient()
    if user:
        client.force_login(user)
    headers = {"If-Match": '"1"'}
    call = getattr(client, method)
    return call(
        world.address(route), world.body(route) or None, format="json", headers=headers
    ).status_code


def _offered() -> set[tuple[str, str]]:
    routes = [p for p in urlpatterns if p.name not in OPEN | NO_MATRIX]
    return {(p.name, m) for p in routes for m in METHODS if hasattr(p.callback.view_class, m)}


def test_every_route_and_method_has_a_row():
    assert _offered() == set(ROWS)


@pytest.mark.parametrize(("route", "method"), sorted(ROWS), ids="-".join)
def test_matrix(world: World, route: str, method: str):
    people = (world.other, world.viewer, world.owner)
    said = tuple(_call(user, world, route, method) for user in people)
    assert said == tuple(reversed(ROWS[route, method]))
    assert _call(None, world, route, method) == 401


def test_the_schema_is_open_and_the_rest_is_a_problem(world: World):
    client = Client()
    assert client.get("/api/v1/schema/").status_code == 200
    assert client.get("/api/v1/docs/").status_code == 200
    lost = client.get("/api/v1/nothing/here")
    assert lost.status_code == 404
    assert lost["Content-Type"] == "application/problem+json"
    assert lost.json()["code"] == "not_found"


def test_a_list_shows_nothing_of_another_project(world: World):
    client = APIClient()
    client.force_login(world.other)
    assert client.get("/api/v1/jobs").json()["results"] == []
    text = client.get("/api/v1/quotas").content + client.get("/api/v1/projects").content
    assert b"vision" not in text and b"olga" not in text


def test_foreign_and_unknown_jobs_answer_alike(world: World):
    client = APIClient()
    client.force_login(world.other)
    foreign = client.get(f"/api/v1/jobs/{world.job.label}").json()
    unknown = client.get("/api/v1/jobs/J-999999").json()
    assert foreign | {"instance": ""} == unknown | {"instance": ""}


@pytest.mark.parametrize("ref", ["J-99999999999999999999", "x", "J-", "J-1;", "%00", "１"])
def test_odd_job_names_are_not_found(world: World, ref: str):
    client = APIClient()
    client.force_login(world.owner)
    assert client.get(f"/api/v1/jobs/{ref}").status_code == 404


def test_a_platform_admin_sees_and_may_all(world: World):
    client = APIClient()
    client.force_login(a_user("root", is_superuser=True))
    assert len(client.get("/api/v1/jobs").json()["results"]) == 1
    made = client.post("/api/v1/nodes", {"name": "n2"}, format="json")
    assert made.status_code == 201 and len(made.json()["join_token"]) > 40
    assert client.post("/api/v1/nodes/n2/retire").status_code == 200
    assert client.post("/api/v1/nodes/n2/cordon", {"reason": "x"}, format="json").status_code == 409
