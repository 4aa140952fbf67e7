"""Templates and lists of images over REST: who sees them, and no stale change wins."""

from __future__ import annotations

import pytest
from django.core.cache import cache
from rest_framework.test import APIClient

from portal.accounts.models import Project, User
from portal.catalogue.models import ImagePolicy, Template
from tests.support.rows import a_project, a_request, a_user

pytestmark = pytest.mark.django_db


@pytest.fixture
def olga() -> User:
    cache.clear()
    return a_user("olga")


@pytest.fixture
def vision(olga: User) -> Project:
    return a_project("vision", olga)


def as_(user: User) -> APIClient:
    client = APIClient()
    client.force_login(user)
    return client


def a_template(project: Project | None, name: str) -> Template:
    request = {"image": "i", "command": ["true"], "device": {"gpus": 1}}
    return Template.objects.create(project=project, name=name, request=request, author="olga")


def test_templates_are_narrowed_to_a_project_and_those_of_everybody(olga, vision):
    speech = a_project("speech", olga)
    for project, name in ((None, "all"), (vision, "ours"), (speech, "theirs")):
        a_template(project, name)
    client = as_(olga)

    def names(query: str) -> list[str]:
        return [row["name"] for row in client.get(f"/api/v1/templates{query}").json()["results"]]

    assert names("") == ["all", "theirs", "ours"]
    assert names("?project=vision") == ["all", "ours"]


def test_templates_of_a_project_that_one_is_not_in_are_not_told_from_none(olga, vision):
    a_project("speech", a_user("ott"))
    answers = [as_(olga).get(f"/api/v1/templates?project={s}") for s in ("speech", "nothing")]
    assert [answer.status_code for answer in answers] == [404, 404]
    assert answers[0].json()["detail"] == answers[1].json()["detail"]


def test_a_template_is_saved_changed_and_deleted(olga, vision):
    client = as_(olga)
    body = {"name": "Train", "project": "vision", "request": a_request(vision)}
    made = client.post("/api/v1/templates", body, format="json")
    assert (made.status_code, made.json()["version"]) == (201, 1)
    address = made["Location"]
    seen = client.get(address)
    changed = client.patch(
        address, {"name": "Train more"}, format="json", headers={"If-Match": seen["ETag"]}
    )
    assert (changed.json()["name"], changed["ETag"]) == ("Train more", '"2"')
    assert client.delete(address).status_code == 204
    assert client.get(address).status_code == 404


def test_a_template_that_somebody_changed_meanwhile_is_not_deleted(olga, vision):
    row = a_template(vision, "ours")
    client, address = as_(olga), f"/api/v1/templates/{row.pk}"
    old = {"If-Match": client.get(address)["ETag"]}
    assert (
        client.patch(address, {"description": "x"}, format="json", headers=old).status_code == 200
    )
    stale = client.delete(address, headers=old)
    assert (stale.status_code, stale.json()["current"]["description"]) == (412, "x")
    assert client.delete(address, headers={"If-Match": stale["ETag"]}).status_code == 204


def test_a_project_without_a_list_may_use_any_image(olga, vision):
    answer = as_(olga).get("/api/v1/projects/vision/images")
    wanted = {"project": "vision", "rule": "any", "patterns": [], "version": 0}
    assert (answer.json(), answer["ETag"]) == (wanted, '"0"')


def test_a_list_of_images_is_set_from_the_version_that_was_read(olga, vision):
    root = as_(a_user("root", is_superuser=True))
    address = "/api/v1/projects/vision/images"
    old = {"If-Match": root.get(address)["ETag"]}
    first = root.put(
        address, {"rule": "listed", "patterns": ["pytorch/*"]}, format="json", headers=old
    )
    assert (first.status_code, first["ETag"]) == (200, '"1"')
    assert as_(olga).get(address).json()["patterns"] == ["pytorch/*"]
    late = {"rule": "listed", "patterns": ["mine/*"]}
    stale = root.put(address, late, format="json", headers=old)
    problem = stale.json()
    assert (stale.status_code, stale["ETag"], problem["sent"]) == (412, '"1"', late)
    assert problem["current"] == first.json()
    missing = root.put(address, late, format="json")
    assert (missing.status_code, missing.json()["code"]) == (428, "version_missing")
    assert ImagePolicy.objects.get().patterns == ["pytorch/*"]


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"rule": "some"}, "rule"),
        ({"rule": "listed", "patterns": []}, "patterns"),
        ({"rule": "listed", "patterns": ["<b>"]}, "patterns"),
        ({"rule": "listed", "patterns": ["x" * 201]}, "patterns.0"),
        ({"rule": "listed", "patterns": ["a"] * 101}, "patterns"),
    ],
)
def test_a_list_that_makes_no_sense_names_its_field(vision, body, field):
    root = as_(a_user("root", is_superuser=True))
    headers = {"If-Match": '"0"'}
    answer = root.put("/api/v1/projects/vision/images", body, format="json", headers=headers)
    assert (answer.status_code, [e["field"] for e in answer.json()["errors"]]) == (400, [field])
