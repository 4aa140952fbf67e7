"""The Files tab: what a job wrote, a look into it, and its downloads."""

import io
import re
import zipfile
from typing import Any

import pytest
from django.test import Client

from agents.contract.file_transfer import TreeKind
from portal.accounts.models import Membership, Role, User
from portal.files.services import trees_remove
from portal.jobs.models import Job
from portal.storage.models import Segment
from portal.storage.stores import current_store
from portal.web.job import file_preview
from tests.support.agent_calls import an_agent
from tests.support.event_files import WRITTEN_BY_TENSORBOARD, scalar_record
from tests.support.file_rows import a_code_tree, a_tree
from tests.support.replica_rows import a_replica
from tests.support.rows import a_project, a_request, a_user

pytestmark = pytest.mark.django_db(transaction=True)
PNG = b"\x89PNG\r\n\x1a\n" + bytes(50)
MARKUP = b"<script>alert(1)</script>\n<b>"
CONTENTS = {
    "a&b/<i>.txt": MARKUP,
    "a&b/c/deep.txt": b"deep",
    "table.csv": b"step,loss\n1,0.5\n",
    "plot.png": PNG,
    "evil.svg": b"<svg onload=alert(1)>",
    "weights.bin": b"\0\1\2" * 100,
}


@pytest.fixture
def replica() -> Any:
    row = a_replica(an_agent().node)
    job = row.attempt.job
    Job.objects.filter(pk=job.pk).update(request=a_request(job.project))
    Membership.objects.create(user=job.owner, project=job.project, role=Role.VIEWER)
    return row


@pytest.fixture
def client(replica) -> Client:
    client = Client()
    client.force_login(replica.attempt.job.owner)
    return client


@pytest.fixture
def page(replica, client):
    def get(**query: str) -> str:
        answer = client.get(f"/jobs/{replica.attempt.job.label}/files", query)
        assert answer.status_code == 200
        return answer.content.decode()

    return get


def body(answer) -> bytes:
    return answer.content


def test_a_job_without_files_says_how_to_keep_some(page):
    assert "TESSERA_OUTPUT_DIR" in page()


def test_trees_are_listed_and_the_only_one_is_open(replica, page):
    tree = a_tree(replica, CONTENTS)
    html = page()
    assert "Output of attempt 1" in html and "30 days after the job has ended" in html
    command = f"tessera cp --attempt 1 {replica.attempt.job.label}: ."
    assert command in html
    assert "a&amp;b/" in html and "2 files" in html and "<i>" not in html.partition("<main")[2]
    inner = page(tree=str(tree.pk), dir="a&b")
    assert "&lt;i&gt;.txt" in inner and "c/" in inner and "table.csv" not in inner
    a_tree(replica, {"saved.json": b"{}"}, TreeKind.CHECKPOINT, step=120)
    assert "Checkpoint of step 120" in page() and "a&amp;b/" not in page()


def test_text_is_shown_as_text_and_a_table_as_one(replica, page):
    tree = str(a_tree(replica, CONTENTS).pk)
    shown = page(tree=tree, file="a&b/<i>.txt")
    assert "&lt;script&gt;alert(1)" in shown and "<script>alert" not in shown
    table = page(tree=tree, file="table.csv")
    assert '<th scope="col">loss</th>' in table and "<td>0.5</td>" in table
    assert "&lt;svg onload" in page(tree=tree, file="evil.svg")
    assert "no preview" in page(tree=tree, file="weights.bin")
    assert "no file of that path" in page(tree=tree, file="../weights.bin")
    assert "This folder is empty" in page(tree=tree, dir="no/such")


def test_a_picture_is_sent_as_one_only_if_its_bytes_are(replica, page, client):
    tree = a_tree(replica, CONTENTS)
    (address,) = re.findall(r'src="(/trees/[^"]+)"', page(tree=str(tree.pk), file="plot.png"))
    answer = client.get(address)
    assert (answer["Content-Type"], body(answer)) == ("image/png", PNG)
    assert answer["X-Content-Type-Options"] == "nosniff"
    assert "sandbox" in answer["Content-Security-Policy"]
    for path in ("evil.svg", "table.csv", "no"):
        assert client.get(f"/trees/{tree.pk}/image", {"path": path}).status_code == 404


def test_the_scalars_of_a_tensorboard_file_are_drawn(replica, page):
    files = {
        "runs/events.out.tfevents.1.host": WRITTEN_BY_TENSORBOARD,
        "events.out.tfevents.2.host": WRITTEN_BY_TENSORBOARD[:300] + b"damage" * 20,
        "events.out.tfevents.3.host": scalar_record("<b>", 1, 1.0),
        "events.out.tfevents.4.host": b"",
    }
    tree = str(a_tree(replica, files).pk)
    whole = page(tree=tree, file="runs/events.out.tfevents.1.host")
    assert "loss/train: 0.2 at step 4, between 0.2 and 1" in whole
    assert whole.count("<polyline") == 3 and "1 value that is not finite" in whole
    damaged = page(tree=tree, file="events.out.tfevents.2.host")
    assert "The file is damaged" in damaged and "loss/train" in damaged
    assert "&lt;b&gt;" in page(tree=tree, file="events.out.tfevents.3.host")
    assert "This file is empty" in page(tree=tree, file="events.out.tfevents.4.host")


def test_files_and_the_zip_are_downloads(replica, client):
    tree = a_tree(replica, CONTENTS)
    answer = client.get(f"/trees/{tree.pk}/file", {"path": "a&b/<i>.txt"})
    assert body(answer) == MARKUP
    assert answer["Content-Type"] == "application/octet-stream"
    assert answer["Content-Disposition"] == 'attachment; filename="<i>.txt"'
    archive = client.get(f"/trees/{tree.pk}/archive")
    assert f'"{replica.attempt.job.label}-output-attempt-1.zip"' in archive["Content-Disposition"]
    with zipfile.ZipFile(io.BytesIO(body(archive))) as opened:
        assert sorted(opened.namelist()) == sorted(CONTENTS)


def test_nobody_of_another_project_gets_any_of_it(replica):
    tree = a_tree(replica, CONTENTS)
    other = a_user("ott")
    a_project("speech", other, role=Role.ADMIN)
    client = Client()
    for address in ("file?path=plot.png", "image?path=plot.png", "archive"):
        assert client.get(f"/trees/{tree.pk}/{address}").status_code == 302
    client.force_login(other)
    for address in ("file?path=plot.png", "image?path=plot.png", "archive"):
        assert client.get(f"/trees/{tree.pk}/{address}").status_code == 404
    mine = a_replica(an_agent().node)
    Membership.objects.create(user=other, project=mine.attempt.job.project, role=Role.MEMBER)
    job = mine.attempt.job
    Job.objects.filter(pk=job.pk).update(request=a_request(job.project))
    html = client.get(f"/jobs/{job.label}/files", {"tree": str(tree.pk)}).content.decode()
    assert "plot.png" not in html


def test_what_was_removed_keeps_its_line(replica, page, client):
    tree = a_tree(replica, CONTENTS)
    trees_remove(trees=[tree], now=tree.created_at)
    html = page(tree=str(tree.pk))
    assert "Output of attempt 1" in html and "plot.png" not in html
    assert client.get(f"/trees/{tree.pk}/archive").status_code == 410


def test_a_file_that_the_store_has_lost_is_said_on_the_page(replica, page):
    tree = a_tree(replica, CONTENTS)
    stream = tree.entries.get(path="table.csv").file.stream
    current_store().delete(Segment.objects.get(stream=stream).object_name)
    assert "An admin has to restore it" in page(tree=str(tree.pk), file="table.csv")


def test_the_code_of_a_job_is_listed_with_who_sent_it(replica, page):
    job = replica.attempt.job
    code = a_code_tree(job.project_id, {"train.py": b"print()"}, "olga")
    Job.objects.filter(pk=job.pk).update(request=a_request(job.project) | {"code": str(code.pk)})
    html = page()
    assert "Code that it ran" in html and "sent by olga" in html and "train.py" in html


@pytest.mark.parametrize("cut", [1, 2, 3])
def test_a_preview_ends_before_a_character_that_is_cut(monkeypatch, replica, page, cut):
    monkeypatch.setattr(file_preview, "TEXT_BYTES", 30 - cut)
    tree = a_tree(replica, {"long.txt": "模型模型模型模型模型模型".encode()})
    html = page(tree=str(tree.pk), file="long.txt")
    assert "模型模型模型模型模" in html and "Only its beginning is shown" in html


def test_the_owner_removes_files_after_a_question_unless_the_job_needs_them(replica, page, client):
    job = replica.attempt.job
    output = a_tree(replica, CONTENTS)
    saved = a_tree(replica, {"saved.json": b"{}"}, TreeKind.CHECKPOINT, step=5)
    question = f"/jobs/{job.label}/files/{saved.pk}/remove"
    assert question in page()
    asked = client.get(question).content.decode()
    assert "Checkpoint of step 5" in asked and "1 file, 2" in asked
    refused = client.post(question)
    assert refused.status_code == 409
    assert job.label in refused.content.decode()
    answer = client.post(f"/jobs/{job.label}/files/{output.pk}/remove", follow=True)
    assert "The files are removed" in answer.content.decode()
    assert "plot.png" not in page(tree=str(output.pk))
    Membership.objects.create(user=a_user("vera"), project=job.project, role=Role.VIEWER)
    viewer = Client()
    viewer.force_login(User.objects.get(username="vera"))
    assert viewer.get(question).status_code == 404
    assert "/remove" not in viewer.get(f"/jobs/{job.label}/files").content.decode()
