"""Home of somebody with many jobs: everything is counted, five are listed, and each row says what
one would open the job for."""

from __future__ import annotations

import re
from datetime import timedelta
from html import unescape

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from portal.allocations.models import Allocation, AllocationSample
from portal.arrays.selectors import members_of
from portal.jobs.models import Job
from portal.submission.arrays import request_submit
from portal.web.home.stream import live_home
from portal.web.wording.labels import NBSP
from scheduler.core.request import parse_request
from tests.support.rows import LIMITS, a_job, a_node, a_project, a_request, a_user, settle

pytestmark = pytest.mark.django_db(transaction=True)
MIB = 1024


@pytest.fixture
def olga():
    return a_user("olga")


@pytest.fixture
def vision(olga):
    return a_project("vision", olga, gpus=200)


@pytest.fixture
def page(client, olga):
    client.force_login(olga)
    return lambda path="/": unescape(client.get(path).content.decode().replace(NBSP, " "))


@pytest.fixture
def running(olga, vision) -> Job:
    node = a_node("n1", gpus=2)
    job = a_job(olga, vision, name="train", device={"gpus": 2}, time_limit="4h")
    settle(node)
    job.refresh_from_db()
    assert job.status == "running"
    return job


def jobs_with(status: str, count: int, olga, project, **columns) -> list[int]:
    """Rows as they are once the planner or a node has moved them."""
    keys = [a_job(olga, project, name=f"{status}-{n}").pk for n in range(count)]
    Job.objects.filter(pk__in=keys).update(status=status, reason=None, **columns)
    return keys


def part(text: str, name: str) -> str:
    found = re.search(rf'data-part="home-{name}".*?(?=<div data-part=|</main>)', text, re.DOTALL)
    assert found, name
    return found[0]


def sampled(job: Job, minutes_ago: int, **values) -> None:
    minute = (timezone.now() - timedelta(minutes=minutes_ago)).replace(second=0, microsecond=0)
    rows = Allocation.objects.filter(replica__attempt__job=job)
    AllocationSample.objects.bulk_create(
        [AllocationSample(allocation=row, minute=minute, **values) for row in rows]
    )


def test_an_array_is_one_row_in_each_list(page, olga, vision):
    body = a_request(vision, name="sweep", array="0-8%2", command=["echo", "{index}"])
    array = request_submit(user=olga, request=parse_request(body, LIMITS)).array
    keys = list(members_of(array).values_list("pk", flat=True))
    jobs_with("queued", 2, olga, vision)
    now = timezone.now()
    Job.objects.filter(pk__in=keys[:3]).update(status="succeeded", finished_at=now)
    Job.objects.filter(pk__in=keys[3:5]).update(status="running", started_at=now)
    page()
    with CaptureQueriesContext(connection) as queries:
        text = page()
    assert len(queries) < 20
    assert "<h1>2 jobs running, 6 waiting</h1>" in text and "more</a>" not in text
    for name, rows in (("running", 1), ("waiting", 3), ("ended", 1)):
        shown = part(text, name)
        assert shown.count(f'href="/arrays/{array.label}/"') == 1, name
        assert len(re.findall(r"<article|<tr><th scope=\"row\"", shown)) == rows, name
    assert "3 of 9 have ended" in part(text, "running")
    assert "4 members" in part(text, "waiting")
    assert "2 running, 4 waiting, 3 succeeded" in part(text, "ended")


def test_the_title_counts_every_job_and_each_list_says_how_many_it_leaves_out(page, olga, vision):
    jobs_with("running", 7, olga, vision)
    jobs_with("queued", 9, olga, vision)
    jobs_with("succeeded", 6, olga, vision, finished_at=timezone.now())
    text = page()
    assert "<h1>7 jobs running, 9 waiting</h1>" in text
    for name, left_out, total in (("running", 2, 7), ("waiting", 4, 9), ("ended", 1, 6)):
        link = re.search(r'<a href="([^"]+)">and (\d+) more</a>', part(text, name))
        assert link and int(link[2]) == left_out, name
        assert f"<h1>{total} jobs</h1>" in page(link[1])


def test_the_jobs_that_end_first_are_listed(page, olga, vision):
    keys = jobs_with("running", 6, olga, vision, started_at=timezone.now())
    for number, key in enumerate(keys):
        ends = timezone.now() + timedelta(hours=10 - number)
        Job.objects.filter(pk=key).update(deadline_at=ends)
    listed = part(page(), "running")
    assert "running-5" in listed and "running-0" not in listed


def test_a_row_draws_what_its_devices_did_in_the_last_hour(page, running):
    for minutes_ago, percent in ((5, 20), (4, 60), (3, 91)):
        memory = {"memory_used_mib": 59 * MIB, "memory_total_mib": 70 * MIB}
        sampled(running, minutes_ago, active_percent=percent, **memory)
    row = part(page(), "running")
    assert "91 % active" in row
    assert "118 of 140 GiB" in row, "of both of its devices"
    assert len(re.findall(r'<polyline points="0[^"]+"/>', row)) == 2


def test_what_was_not_measured_is_said_to_be_so_and_never_0(page, running):
    Job.objects.update(started_at=timezone.now() - timedelta(hours=1))
    row = part(page(), "running")
    assert row.count("not measured") == 1
    assert "0 %" not in row and "<polyline" not in row
    sampled(running, 1, active_percent=None, memory_used_mib=MIB, memory_total_mib=70 * MIB)
    row = part(page(), "running")
    assert row.count("not measured") == 1 and "2.0 of 140 GiB" in row
    assert "0 % active" not in row


def test_a_job_that_has_just_started_waits_for_its_first_sample(page, running):
    assert part(page(), "running").count("waiting for a sample") == 1


def test_old_samples_and_those_of_other_jobs_draw_nothing(page, running):
    Job.objects.update(started_at=timezone.now() - timedelta(hours=3))
    sampled(running, 90, active_percent=50)
    assert part(page(), "running").count("not measured") == 1


def test_the_present_minute_counts_once_all_devices_have_reported(page, running):
    memory = {"memory_used_mib": 59 * MIB, "memory_total_mib": 70 * MIB}
    sampled(running, 2, active_percent=90, **memory)
    sampled(running, 1, active_percent=10, **memory)
    AllocationSample.objects.filter(active_percent=10).first().delete()
    row = part(page(), "running")
    assert "90 % active" in row and "118 of 140 GiB" in row


def test_stop_asks_first_and_leads_back_to_home(client, page, running):
    link = re.search(r'href="(/jobs/J-\d+/cancel\?back=home)"', page())
    assert link
    asked = page(link[1])
    assert "Cancel train" in asked and 'href="/"' in asked
    assert client.post(link[1]).headers["Location"] == "/"
    running.refresh_from_db()
    assert running.status == "stopping"
    assert link[1] not in page(), "it is stopping already"


def test_a_finished_job_says_why_it_failed_and_what_it_used(page, olga, vision):
    node = a_node("n1", gpus=2)
    a_job(olga, vision, name="broken", device={"gpus": 1})
    settle(node)
    node.finish(exit_code=127)
    settle(node)
    Allocation.objects.update(bound_at=timezone.now() - timedelta(hours=2))
    row = part(page(), "ended")
    assert "Failed" in row and "Command not found" in row
    assert '<td class="num">2.01</td>' in row or '<td class="num">2.00</td>' in row


def test_a_waiting_row_offers_another_way_only_where_there_is_one(page, olga, vision):
    (key,) = jobs_with("queued", 1, olga, vision, position=1)
    assert "Start sooner" not in page()
    offer = {"sentence": "with 1 GPU", "changes": {"replicas": 1}}
    reason = {"code": "resources", "class": "wait", "sentence": "taken", "alternatives": [offer]}
    Job.objects.filter(pk=key).update(reason=reason)
    assert "Start sooner" in page()


def test_without_an_estimate_the_line_below_the_title_says_why(page, olga, vision):
    jobs_with("queued", 1, olga, vision, position=1)
    title = part(page(), "title")
    assert "queued-0" in title and "no estimate: no history to go by" in title


def test_the_stream_sends_what_the_page_shows(client, page, olga, running, vision):
    """Nothing moves on the page when its stream begins."""
    jobs_with("queued", 1, olga, vision, submitted_at=timezone.now() - timedelta(hours=1))
    text, sent = page(), unescape(live_home(olga, "").html.replace(NBSP, " "))
    names = set(re.findall(r'data-part="(home-\w+)"', text))
    assert names == set(re.findall(r'data-part="(home-\w+)"', sent))
    for name in ("title", "running", "waiting", "quota"):
        first = re.search(rf'<div data-part="home-{name}".*?</(?:section|h1)>', text, re.DOTALL)
        # A minute may have passed between the two.
        assert first and re.sub(r"\d+", "0", first[0]) in re.sub(r"\d+", "0", sent), name


@pytest.mark.slow
def test_home_costs_as_many_queries_with_ninety_jobs_as_with_nine(page, olga, vision):
    node = a_node("n1", gpus=8)
    first = a_job(olga, vision, device={"gpus": 2})
    settle(node)
    sampled(first, 1, active_percent=5)
    jobs_with("failed", 1, olga, vision, finished_at=timezone.now())

    def query_count() -> int:
        page()  # it reads the planner's snapshot, which the process keeps
        with CaptureQueriesContext(connection) as queries:
            page()
        return len(queries)

    jobs_with("running", 4, olga, vision)
    jobs_with("queued", 4, olga, vision)
    few = query_count()
    jobs_with("running", 59, olga, vision)
    jobs_with("queued", 22, olga, vision)
    # A submit plans, and places what waits.
    Job.objects.filter(name__startswith="queued").update(status="queued")
    assert query_count() == few < 20
    assert "<h1>64 jobs running, 26 waiting</h1>" in page()
