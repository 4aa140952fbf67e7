"""Files over REST: code is sent in chunks, and what jobs wrote is listed and fetched."""

import asyncio
import io
import zipfile
from typing import Any

import pytest
from django.test import Client

from agents.contract.file_transfer import TreeKind
from portal.accounts.models import Membership, Role
from portal.files import delivery
from portal.files.models import ProjectFiles, StoredFile, Tree
from portal.files.services import trees_remove
from portal.storage.models import Segment
from portal.storage.stores import current_store
from tests.support.agent_calls import an_agent
from tests.support.file_calls import sha256
from tests.support.file_rows import a_tree
from tests.support.replica_rows import a_replica

pytestmark = pytest.mark.django_db(transaction=True)
MODEL = bytes(range(256)) * 100
CONTENTS = {
    "model/weights.bin": MODEL,
    "run.sh": b"#!/bin/sh",
    "模型.txt": b"<script>alert(1)</script>",
}


@pytest.fixture
def replica() -> Any:
    return a_replica(an_agent().node)


@pytest.fixture
def client(replica) -> Client:
    """Of a member of the project."""
    job = replica.attempt.job
    Membership.objects.create(user=job.owner, project=job.project, role=Role.MEMBER)
    client = Client()
    client.force_login(job.owner)
    return client


def content(client, tree, path, **headers):
    return client.get(f"/api/v1/trees/{tree.pk}/content", {"path": path}, headers=headers)


def put(client, project, data, offset=0, *, name="", size=None):
    address = f"/api/v1/projects/{project.slug}/files/{name or sha256(data)}"
    query = f"?offset={offset}&size={len(data) if size is None else size}"
    return client.put(address + query, data, content_type="application/octet-stream")


def test_what_a_job_wrote_is_listed_in_pages(replica, client):
    a_tree(replica, {"saved.json": b"{}"}, TreeKind.CHECKPOINT, step=7)
    tree = a_tree(replica, CONTENTS)
    trees = client.get(f"/api/v1/jobs/{replica.attempt.job.label}/trees").json()["results"]
    assert [(one["kind"], one["step"]) for one in trees] == [("output", 0), ("checkpoint", 7)]
    assert (trees[0]["file_count"], trees[0]["removal_at"]) == (3, None)
    page = client.get(f"/api/v1/trees/{tree.pk}/files?limit=2").json()
    assert [one["path"] for one in page["results"]] == ["model/weights.bin", "run.sh"]
    rest = client.get(f"/api/v1/trees/{tree.pk}/files?after={page['next_after']}").json()
    assert ([one["path"] for one in rest["results"]], rest["next_after"]) == (["模型.txt"], None)


def test_a_file_is_a_download_whatever_it_holds(replica, client):
    tree = a_tree(replica, CONTENTS)
    answer = content(client, tree, "模型.txt")
    assert answer.content == CONTENTS["模型.txt"]
    assert answer["Content-Type"] == "application/octet-stream"
    assert answer["X-Content-Type-Options"] == "nosniff"
    assert answer["Content-Disposition"].startswith("attachment; filename*=utf-8''")
    assert answer["ETag"] == f'"{sha256(CONTENTS["模型.txt"])}"'
    again = content(client, tree, "模型.txt", **{"If-None-Match": answer["ETag"]})
    assert (again.status_code, again.content) == (304, b"")
    for path in ("no", "../run.sh", "model", "a\0b"):
        assert content(client, tree, path).status_code in (400, 404)


@pytest.mark.parametrize(
    ("asked", "part"),
    [
        ("bytes=0-0", MODEL[:1]),
        ("bytes=100-", MODEL[100:]),
        ("bytes=100-9999999", MODEL[100:]),
        ("bytes=-10", MODEL[-10:]),
    ],
)
def test_a_download_goes_on_where_it_was_cut(replica, client, asked, part):
    tree = a_tree(replica, CONTENTS)
    answer = content(client, tree, "model/weights.bin", Range=asked)
    assert (answer.status_code, answer.content) == (206, part)
    assert answer["Content-Range"].endswith(f"/{len(MODEL)}")
    stale = {"Range": asked, "If-Range": '"other"'}
    assert content(client, tree, "model/weights.bin", **stale).content == MODEL


@pytest.mark.parametrize("asked", ["bytes=5-1", "bytes=0-1,5-6", "lines=1-2", "bytes=-", "x"])
def test_what_is_not_one_range_is_the_whole_file(replica, client, asked):
    tree = a_tree(replica, CONTENTS)
    answer = content(client, tree, "model/weights.bin", Range=asked)
    assert (answer.status_code, answer.content) == (200, MODEL)


def test_a_range_behind_the_end_is_refused(replica, client):
    tree = a_tree(replica, CONTENTS)
    refused = content(client, tree, "run.sh", Range="bytes=9-")
    assert (refused.status_code, refused.json()["code"]) == (416, "range_beyond_end")


def test_an_archive_has_every_file_with_its_mode(replica, client, monkeypatch):
    tree = a_tree(replica, CONTENTS)
    tree.entries.filter(path="run.sh").update(executable=True)
    whole = client.get(f"/api/v1/trees/{tree.pk}/archive")
    assert whole["Content-Type"] == "application/zip"
    monkeypatch.setattr(delivery, "WHOLE_BYTES", 0)
    streamed = client.get(f"/api/v1/trees/{tree.pk}/archive")

    async def received() -> bytes:
        return b"".join([part async for part in streamed])

    for data in (whole.content, asyncio.run(received())):
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            assert archive.testzip() is None
            assert {name: archive.read(name) for name in archive.namelist()} == CONTENTS
            assert archive.getinfo("run.sh").external_attr >> 16 == 0o100755


def test_files_that_were_removed_say_so(replica, client):
    tree = a_tree(replica, CONTENTS)
    trees_remove(trees=[tree], now=tree.created_at)
    for answer in (
        content(client, tree, "run.sh"),
        client.get(f"/api/v1/trees/{tree.pk}/files"),
        client.get(f"/api/v1/trees/{tree.pk}/archive"),
    ):
        assert (answer.status_code, answer.json()["code"]) == (410, "files_removed")
    assert client.get(f"/api/v1/trees/{tree.pk}").json()["removed_at"]


def test_a_file_that_the_store_has_lost_is_an_error_and_never_short(replica, client):
    tree = a_tree(replica, CONTENTS)
    file = tree.entries.get(path="run.sh").file
    segment = Segment.objects.get(stream=file.stream)
    current_store().delete(segment.object_name)
    answer = content(client, tree, "run.sh")
    assert (answer.status_code, answer.json()["code"]) == (500, "store_object_missing")


def test_code_is_sent_in_chunks_and_committed_once(replica, client):
    project = replica.attempt.job.project
    have = f"/api/v1/projects/{project.slug}/files/have"
    wanted = {"files": [{"sha256": sha256(MODEL), "size": len(MODEL)}]}

    def progress():
        (one,) = client.post(have, wanted, content_type="application/json").json()["results"]
        return one["received"], one["complete"]

    part = {"name": sha256(MODEL), "size": len(MODEL)}
    assert progress() == (0, False)
    assert put(client, project, MODEL[:9], 0, **part).json()["received"] == 9
    refused = put(client, project, MODEL[5000:], 5000, **part)
    assert (refused.status_code, refused.json()["code"]) == (409, "file_offset")
    assert progress() == (9, False)
    assert put(client, project, MODEL[9:], 9, **part).json()["complete"]
    files = [{"path": "train.py", "sha256": sha256(MODEL), "size": len(MODEL)}]
    trees = f"/api/v1/projects/{project.slug}/trees"
    made = [client.post(trees, {"files": files}, content_type="application/json") for _ in range(2)]
    assert {one.status_code for one in made} == {201}
    assert made[0].json()["id"] == made[1].json()["id"]
    assert Tree.objects.get().creator == replica.attempt.job.owner.username


def test_what_is_wrong_with_sent_code_is_said(replica, client):
    project = replica.attempt.job.project
    trees = f"/api/v1/projects/{project.slug}/trees"
    one = {"sha256": "a" * 64, "size": 1}
    for path, code in (("a", "file_incomplete"), ("../a", "path_invalid"), ("/a", "path_invalid")):
        body = {"files": [one | {"path": path}]}
        refused = client.post(trees, body, content_type="application/json")
        assert refused.json()["code"] == code
    large = put(client, project, b"x" * (4 << 20) + b"x")
    assert (large.status_code, large.json()["code"]) == (413, "too_large")
    wrong = put(client, project, b"xyz", name="a" * 64)
    assert (wrong.status_code, wrong.json()["code"]) == (409, "file_changed")
    assert put(client, project, b"x", name="A" * 64).status_code == 400
    assert not StoredFile.objects.exists()


def test_a_platform_admin_sets_what_a_project_may_store(replica, client):
    project = replica.attempt.job.project
    address = f"/api/v1/projects/{project.slug}/storage"
    read = client.get(address)
    assert read.json() == {
        **{"stored_bytes": 0, "stored_gib": 100, "kept_days": 30, "is_own": False, "version": 1}
    }
    owner = replica.attempt.job.owner
    owner.is_superuser = True
    owner.save()
    body = {"stored_gib": 0, "kept_days": None}
    options: dict[str, Any] = {"content_type": "application/json"}
    changed = client.put(address, body, headers={"If-Match": read["ETag"]}, **options)
    assert (changed.json()["stored_gib"], changed.json()["kept_days"]) == (0, 30)
    assert ProjectFiles.objects.get().version == 2
    stale = client.put(address, body, headers={"If-Match": read["ETag"]}, **options)
    assert (stale.status_code, stale.json()["current"]["version"]) == (412, 2)
    refused = put(client, project, b"x")
    assert (refused.status_code, refused.json()["code"]) == (409, "stored_limit")
