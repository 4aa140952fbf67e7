"""The console's pages of volumes: the list, a new one, and what a refusal says beside its field."""

from html import unescape

import pytest

from agents.contract.volumes import OfferedRoot, VolumeSize
from portal.volumes.models import Volume
from tests.support.rows import a_job, a_node, a_project, a_user

pytestmark = pytest.mark.django_db

FORM = {"name": "imagenet", "root": "datasets", "subpath": "images", "projects": "vision speech"}


@pytest.fixture
def team():
    a_project("speech")
    return a_project("vision", a_user("olga"))


@pytest.fixture
def page(client, team):
    client.force_login(a_user("root", is_superuser=True))
    return client


def text(response):
    return unescape(response.content.decode())


def test_an_admin_makes_a_volume_and_sees_where_it_is_and_how_large(page):
    assert "No volumes yet" in text(page.get("/console/volumes/"))
    node = a_node("n1")
    size = VolumeSize("images", 300 << 10, 7, True, 1_800_000_000)
    node.volume_roots = (OfferedRoot("datasets", False, 1, 2, (size,)),)
    node.report()
    assert "Offered now: datasets" in text(page.get("/console/volumes/new"))
    answer = page.post("/console/volumes/new", FORM | {"quota_gib": "200"}, follow=True)
    assert "Volume imagenet is there for new jobs" in text(answer)
    for words in ("datasets/images", "speech", "≥ 300 GB", "7 files", "over its quota of 200 GB"):
        assert words in text(answer)
    assert '<a href="/console/nodes/n1/">n1</a>' in text(answer)
    chinese = page.get("/console/volumes/", headers={"Accept-Language": "zh-hans"})
    assert "超出配额 200 GB" in text(chinese)


@pytest.mark.parametrize(
    ("fields", "name", "words"),
    [
        ({"name": "Image Net"}, "name", "small letters, digits and hyphens"),
        ({"root": "/srv"}, "root", "the name of a root"),
        ({"subpath": "../b"}, "subpath", "no '..'"),
        ({"projects": "vision nobody"}, "projects", "the short names of projects"),
        ({"projects": ""}, "projects", "at least one project"),
        ({"quota_gib": "many"}, "quota_gib", "a number from 0"),
        ({"quota_files": "-1"}, "quota_files", "a number from 0"),
    ],
)
def test_a_refusal_stands_beside_its_field(page, fields, name, words):
    answer = page.post("/console/volumes/new", FORM | fields)
    assert answer.status_code == 400
    error = text(answer).partition(f'id="{name}-error"')[2].partition("</p>")[0]
    assert words in error
    assert not Volume.objects.exists()


def test_a_volume_is_not_deleted_while_a_job_uses_it(page, team):
    page.post("/console/volumes/new", FORM)
    job = a_job(team.memberships.get().user, team, volumes=["imagenet:/data"])
    address = "/console/volumes/imagenet/"
    refused = page.post(address, FORM | {"step": "delete"})
    assert refused.status_code == 409 and f"Jobs use imagenet: {job.label}" in text(refused)
    stale = page.post(address, FORM | {"version": "7"})
    assert stale.status_code == 412
    saved = page.post(address, FORM | {"version": "1", "description": "pictures"}, follow=True)
    assert "Volume imagenet is saved" in text(saved)
    job.delete()
    assert "is deleted" in text(page.post(address, FORM | {"step": "delete"}, follow=True))
