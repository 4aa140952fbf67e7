"""Home: how one's own work stands, when it ends, what is free, and where to begin."""

from __future__ import annotations

import re
from datetime import timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from portal.inventory.models import Gpu, Node
from portal.jobs.models import Job
from portal.web.wording.labels import NBSP
from tests.support.rows import a_job, a_node, a_project, a_user, settle

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def olga():
    return a_user("olga")


@pytest.fixture
def vision(olga):
    return a_project("vision", olga)


@pytest.fixture
def page(client, olga):
    client.force_login(olga)
    return lambda path="/": client.get(path).content.decode().replace(NBSP, " ")


@pytest.fixture
def running(olga, vision) -> Job:
    node = a_node("n1", gpus=2)
    job = a_job(olga, vision, name="train", time_limit="4h")
    settle(node)
    job.refresh_from_db()
    assert job.status == "running"
    return job


def ends_in(job: Job, **time: int) -> None:
    Job.objects.filter(pk=job.pk).update(deadline_at=timezone.now() + timedelta(**time, seconds=20))


def test_running_work_says_how_much_time_is_left(page, running):
    ends_in(running, hours=2, minutes=38)
    text = page()
    assert "<h1>1 job running</h1>" in text
    assert "<b>2 h 38 min</b> left" in text
    assert "1 h 21 min of 4 h elapsed" in text
    assert "Ends in" not in text


def test_work_that_ends_soon_is_said_in_colour_and_in_words(page, running):
    ends_in(running, minutes=12)
    assert re.search(r'<span class="status warn">.*Ends in 12 min</span>', page())


def test_one_click_gives_a_running_job_an_hour_more(client, page, running):
    before = running.deadline_at
    assert "Extend by 1 h" in page()
    answer = client.post(f"/jobs/{running.label}/extend", {"back": "home"})
    assert answer.headers["Location"] == "/"
    running.refresh_from_db()
    assert running.deadline_at == before + timedelta(hours=1)
    assert "train has 1 h more" in page()


def test_nobody_extends_what_is_not_theirs_or_by_looking(client, running, vision):
    eve, otto = a_user("eve"), a_user("otto")
    vision.memberships.create(user=otto, role="member")
    address = f"/jobs/{running.label}/extend"
    for user, status in ((eve, 404), (otto, 302)):
        client.force_login(user)
        assert client.get(address).status_code == 405
        assert client.post(address).status_code == status
    after = Job.objects.get(pk=running.pk)
    assert after.deadline_at == running.deadline_at


def test_a_job_at_the_longest_limit_is_not_offered_more(page, running):
    Job.objects.filter(pk=running.pk).update(time_limit_seconds=7 * 24 * 3600)
    assert "Extend by 1 h" not in page()


def test_waiting_work_has_its_position_its_reason_and_a_range(page, running, olga, vision):
    waits = a_job(olga, vision, name="sweep", device={"gpus": 2})
    now = int(timezone.now().timestamp())
    estimate = {"optimistic": now + 1990, "expected": now + 2500, "pessimistic": now + 4090}
    Job.objects.filter(pk=waits.pk).update(
        status="queued",
        position=1,
        estimate=estimate | {"basis": "by limits", "basis_said": None},
        reason={"code": "resources", "class": "wait", "sentence": "2 GPUs are taken"},
    )
    text = page()
    assert "1 job running, 1 waiting" in text
    assert "position <b>1</b> of 1" in text
    assert "2 GPUs are taken" in text
    assert "in 33 min to 1 h 08 min" in text
    clock = r"<time[^>]*>[^<]*\d\d:\d\d</time>"
    assert re.search(rf"<b[^>]*>{clock} to {clock}</b>", text)


def test_without_anything_to_go_by_there_is_no_estimate(page, olga, vision, running):
    waits = a_job(olga, vision, name="sweep")
    Job.objects.filter(pk=waits.pk).update(status="queued", estimate=None, reason=None)
    text = page()
    assert "no estimate: no history to go by" in text
    assert "is expected to start" not in text


def test_the_clusters_free_capacity_is_one_line(page, vision):
    a_node("n1", gpus=3)
    assert "<span>3 of 3 GPUs free</span>" in page()
    Gpu.objects.filter(index=0).update(health="failed")
    text = page()
    assert "<span>2 of 2 GPUs free</span>" in text
    assert "1 GPU is out of service" in text
    Node.objects.update(schedulable=False)
    assert "No GPU is in service." in page()


def test_the_miniature_draws_a_gang_as_tall_as_the_gpus_that_it_holds(page, olga, vision):
    node = a_node("n1", gpus=4)
    a_job(olga, vision, device={"gpus": 3})
    settle(node)
    drawing = re.search(r'<svg class="map" viewBox="0 0 127 (\d+)".*?</svg>', page(), re.DOTALL)
    assert drawing
    row, gap = int(drawing[1]) // 4, 3
    cells = re.findall(r'<rect class="(\w+)"[^>]* height="(\d+)"', drawing[0])
    assert cells == [("mine", str(3 * row - gap)), ("free", str(row - gap))]
    assert drawing[0].count('class="grout"') == 2, "a joint between each two GPUs"


def test_held_gpus_are_not_free_and_made_slices_are_ready(page, running):
    assert "<span>1 of 2 GPUs free, 0.71 more in parts of GPUs</span>" in page()


def test_who_has_no_jobs_finds_three_starts_that_open_a_filled_form_that_can_be_sent(
    client, page, vision
):
    a_node("n1", gpus=2)
    keys = re.findall(r'href="/request/\?start=(\w+)"', page())
    assert len(keys) == 3
    for key in keys:
        text = page(f"/request/?start={key}")
        assert "Can start now" in text, key
        assert 'aria-invalid="true"' not in text
    assert 'name="replicas" value="2"' in page("/request/?start=together")


def test_who_is_in_no_project_is_told_so_and_offered_nothing_that_cannot_be_sent(client):
    client.force_login(a_user("new"))
    text = client.get("/").content.decode()
    assert "You are not in a project yet" in text
    assert "start=" not in text


def test_a_large_cluster_costs_no_more_queries_than_a_small_one_and_is_not_drawn(client, page):
    def query_count() -> int:
        page()  # it reads the planner's snapshot, which the process keeps
        with CaptureQueriesContext(connection) as queries:
            page()
        return len(queries)

    for n in range(5):
        a_node(f"n{n}", gpus=1)
    few = query_count()
    for n in range(5, 12):
        a_node(f"n{n}", gpus=2)
    assert query_count() == few < 20
    assert '<svg class="map"' not in page()
