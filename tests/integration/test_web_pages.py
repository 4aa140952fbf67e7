"""The pages: who sees what, nothing from a user becomes markup, no page grows with its rows."""

import asyncio
import re
from typing import Any

import pytest
from django.db import connection
from django.test import AsyncClient
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from portal.jobs.models import Job, Replica
from portal.web.logs.text import plain_text
from tests.support.logs import write_log
from tests.support.rows import a_job, a_node, a_project, a_user, settle

pytestmark = pytest.mark.django_db(transaction=True)
PAGES = ("/", "/jobs/", "/queue/", "/request/", "/cluster/")


@pytest.fixture
def olga():
    return a_user("olga")


@pytest.fixture
def team(olga):
    return a_project("vision", olga)


@pytest.fixture
def page(client, olga):
    """What a signed-in olga gets: (status, text)."""
    client.force_login(olga)

    def get(path, **fields):
        answer = client.get(path, fields)
        return answer.status_code, answer.content.decode()

    return get


@pytest.fixture
def running(olga, team) -> Job:
    node = a_node("n1", gpus=2)
    job = a_job(olga, team, name="train")
    settle(node)
    job.refresh_from_db()
    assert job.status == "running"
    return job


def logged(job: Job, text: str, rank: int = 0) -> None:
    replica = Replica.objects.get(attempt__job=job, rank=rank)
    write_log(replica, 0, text.encode())
    Replica.objects.filter(pk=replica.pk).update(log_bytes=len(text.encode()))


@pytest.mark.parametrize("path", [*PAGES, "/jobs/J-1/", "/jobs/J-1/log", "/jobs/J-1/cancel"])
def test_nobody_sees_a_page_without_signing_in(client, path):
    answer = client.get(path)
    assert answer.status_code == 302
    assert answer.headers["Location"].startswith("/sign-in/?next=")


def test_the_stream_is_refused_without_signing_in(client):
    assert client.get("/jobs/J-1/stream").status_code == 401


@pytest.mark.parametrize("path", PAGES)
def test_pages_stand_with_nothing_in_the_database(page, path):
    status, text = page(path)
    assert status == 200
    assert text.count("<h1") == 1


@pytest.mark.parametrize("path", PAGES)
def test_no_page_has_inline_scripts_or_styles(page, running, path):
    text = page(path)[1] + page(f"/jobs/{running.label}/")[1]
    assert "style=" not in text
    assert not re.search(r"<script(?![^>]*\bsrc=)", text)
    assert not re.search(r"\son[a-z]+=", text)


def test_signing_in_needs_the_right_password_and_goes_on_to_where_one_wanted(client, olga):
    wrong = client.post("/sign-in/", {"username": "olga", "password": "no"})
    assert wrong.status_code == 200
    assert 'role="alert"' in wrong.content.decode()
    right = client.post("/sign-in/", {"username": "olga", "password": "pw", "next": "/cluster/"})
    assert right.headers["Location"] == "/cluster/"


def test_next_never_leads_to_another_site(client, olga):
    fields = {"username": "olga", "password": "pw", "next": "https://elsewhere.example/"}
    assert client.post("/sign-in/", fields).headers["Location"] == "/"
    back = client.post("/language/", {"language": "zh-hans", "next": "//elsewhere.example/"})
    assert back.headers["Location"] == "/"


def test_a_foreign_job_looks_like_none(page, client):
    eve = a_user("eve")
    a_node("n1")
    foreign = a_job(eve, a_project("secret", eve), name="zebra")
    for path in ("", "log", "cancel", "stream"):
        for label in (foreign.label, "J-999", "J-x"):
            assert client.get(f"/jobs/{label}/{path}").status_code == 404, (label, path)
    assert client.post(f"/jobs/{foreign.label}/cancel").status_code == 404
    assert "zebra" not in page("/jobs/")[1] + page("/")[1] + page("/cluster/")[1]
    foreign.refresh_from_db()
    assert foreign.status not in ("cancelled", "stopping")


def test_the_cluster_shows_that_foreign_work_is_there_but_not_what(page):
    eve = a_user("eve")
    node = a_node("n1")
    job = a_job(eve, a_project("secret", eve), name="zebra")
    settle(node)
    job.refresh_from_db()
    assert job.status == "running"
    text = page("/cluster/")[1]
    assert "another project" in text
    assert not {"eve", "zebra", "secret", job.label} & set(re.findall(r"[\w-]+", text))


def test_the_cluster_says_why_a_node_takes_no_work(page):
    node = a_node("n1")
    node.blocks = ("block: <b>runc</b> is too old Mend: apt install runc",)
    node.report()
    text = page("/cluster/")[1]
    assert "Blocked" in text
    assert text.count("&lt;b&gt;runc&lt;/b&gt; is too old") == 1
    assert '<code class="wrap">apt install runc</code>' in text
    assert "Nothing is free now" in text
    assert "to carve" not in page("/request/")[1]


def test_a_running_job_shows_its_place_time_line_and_log(page, running):
    logged(running, "step 1\nstep 2\n")
    text = page(f"/jobs/{running.label}/")[1]
    for words in (
        "step 1",
        "step 2",
        "n1</a>, GPU",
        "2g.35gb",
        "Running",
        "Cancel job",
        "data-stream",
    ):
        assert words in text, words


def test_a_log_is_text_whatever_it_contains(page, running):
    logged(running, "<script>alert(1)</script> \x1b[31mred\x1b[0m \x1b]0;title\x07 \u202eevil\r\n")
    text = page(f"/jobs/{running.label}/")[1]
    assert "<script>alert" not in text
    assert "&lt;script&gt;alert(1)&lt;/script&gt; red" in text
    assert not re.search("[\x1b\x07\u202e]", text)


def test_what_is_cut_from_a_line_never_eats_its_words():
    assert plain_text("\x1b[1;31mloss\x1b[0m 0.3") == "loss 0.3"
    assert plain_text("a\tb") == "a\tb"
    assert plain_text("损失 é ✓") == "损失 é ✓"
    assert plain_text("\x1b") == ""


def test_names_and_commands_of_users_are_never_markup(page, olga, team):
    a_node("n1")
    job = a_job(olga, team, command=["echo", "<b>x</b>"], env={"X": "<i>y</i>"})
    Job.objects.filter(pk=job.pk).update(name="<u>z</u>")
    everything = page("/")[1] + page("/jobs/")[1] + page("/request/", like=job.label)[1]
    for tab in ("logs", "metrics", "events", "spec", "results"):
        everything += page(f"/jobs/{job.label}/{tab}")[1]
    assert not re.search(r"<[biu]>[xyz]", everything)
    assert "&lt;b&gt;x" in everything


def test_a_raw_log_downloads_as_plain_text_under_a_safe_name(client, running, olga):
    logged(running, "<b>raw</b>\x1b[0m\n")

    async def scenario() -> tuple[Any, bytes]:
        reader = AsyncClient()
        await reader.aforce_login(olga)
        assert (await reader.get(f"/jobs/{running.label}/log?rank=7")).status_code == 404
        answer = await reader.get(f"/jobs/{running.label}/log")
        return answer, b"".join([piece async for piece in answer.streaming_content])

    answer, data = asyncio.run(scenario())
    assert data == b"<b>raw</b>\x1b[0m\n"
    assert answer.headers["Content-Type"] == "text/plain; charset=utf-8"
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    assert f'filename="{running.label}-rank-0.log"' in answer.headers["Content-Disposition"]


def test_cancelling_asks_first_and_then_stops_the_job(client, running, olga):
    client.force_login(olga)
    asks = client.get(f"/jobs/{running.label}/cancel").content.decode()
    assert "cannot be undone" in asks
    running.refresh_from_db()
    assert running.status == "running"
    client.post(f"/jobs/{running.label}/cancel")
    running.refresh_from_db()
    assert running.status == "stopping"
    assert client.post(f"/jobs/{running.label}/cancel").status_code == 302


def test_a_colleague_sees_a_job_but_does_not_cancel_it(client, running, team):
    otto = a_user("otto")
    team.memberships.create(user=otto, role="member")
    client.force_login(otto)
    assert "Cancel job" not in client.get(f"/jobs/{running.label}/").content.decode()
    assert client.post(f"/jobs/{running.label}/cancel").status_code == 403
    running.refresh_from_db()
    assert running.status == "running"


def test_a_waiting_job_shows_its_reason_with_evidence(page, olga, team):
    node = a_node("n1")
    first, second = (a_job(olga, team, device={"gpus": 1}) for _ in range(2))
    settle(node)
    second.refresh_from_db()
    assert second.status == "queued"
    text = page(f"/jobs/{second.label}/")[1]
    assert second.reason["sentence"] in text
    assert f'<span class="tag mono">{second.reason["code"]}</span>' in text
    assert "n1 0" in text
    assert first.label in page("/")[1]


def test_a_failed_job_says_why_with_its_last_lines(page, olga, team):
    node = a_node("n1")
    job = a_job(olga, team, retries={"user": 0})
    settle(node)
    logged(job, "loading\nValueError: no such file\n")
    node.finish(exit_code=1)
    settle(node)
    text = page(f"/jobs/{job.label}/")[1]
    assert "ended with exit code 1" in text
    # The headline, its evidence, the last lines and the log.
    assert text.count("ValueError: no such file") == 4
    assert "exit code 1" in page(f"/jobs/{job.label}/results")[1]


def test_a_job_that_has_ended_no_longer_says_what_it_once_waited_for(page, running):
    Job.objects.update(reason={"class": "wait", "code": "resources", "sentence": "All is taken"})
    for status, is_said in (("queued", True), ("failed", False), ("cancelled", False)):
        Job.objects.update(status=status)
        assert ("All is taken" in page("/jobs/")[1]) is is_said


def test_the_list_is_filtered_by_its_address(page, olga, team):
    node = a_node("n1")
    a_job(olga, team, name="alpha")
    settle(node)
    beta = a_job(olga, team, name="beta", device={"gpus": 1})
    assert beta.label in page("/jobs/", name="bet")[1]
    assert "alpha" not in page("/jobs/", name="bet")[1]
    assert "alpha" not in page("/jobs/", status="queued")[1]
    assert page("/jobs/", status="no-such-state", after="x")[0] == 200


@pytest.mark.parametrize("path", ["/", "/jobs/", "/queue/", "/cluster/"])
def test_a_page_asks_the_database_as_often_for_many_rows_as_for_few(page, olga, team, path):
    def count() -> int:
        page(path)  # it may read the planner's snapshot, which the process keeps
        with CaptureQueriesContext(connection) as asked:
            page(path)
        return len(asked)

    nodes = [a_node("n1", gpus=2)]
    a_job(olga, team)
    settle(*nodes)
    few = count()
    nodes.append(a_node("n2", gpus=4))
    for _ in range(6):
        a_job(olga, team)
    settle(*nodes)
    assert count() == few


def test_an_ended_job_no_longer_streams(page, olga, team):
    node = a_node("n1")
    job = a_job(olga, team)
    settle(node)
    node.finish()
    settle(node)
    Job.objects.filter(pk=job.pk).update(finished_at=timezone.now())
    text = page(f"/jobs/{job.label}/")[1]
    assert "data-stream" not in text
    assert "Succeeded" in text
    assert "Cancel job" not in text
