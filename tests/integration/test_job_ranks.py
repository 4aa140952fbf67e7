"""The ranks of a gang beside each other: on its page, live, and over REST."""

import asyncio
import html
import re
from contextlib import aclosing
from datetime import timedelta

import pytest
from django.db import connection
from django.utils import timezone

from portal.allocations.models import Allocation, AllocationSample
from portal.job_metrics.models import MetricSeries
from portal.jobs.models import Attempt, Job, Replica
from portal.live.bell import ring
from portal.live.listener import listener
from portal.ranks import stragglers
from portal.web.job import ranks_tab
from portal.web.job import stream as job_stream
from portal.web.job.stream import FollowedPage, job_stream_events
from portal.web.logs.cursor import parse_cursor
from portal.web.page_parts import PageFace
from tests.support.logs import write_log
from tests.support.rows import a_job, a_node, a_project, a_user, settle

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def olga():
    return a_user("olga")


@pytest.fixture
def team(olga):
    return a_project("vision", olga)


@pytest.fixture
def nodes():
    return [a_node("n1", gpus=2), a_node("n2", gpus=2)]


@pytest.fixture
def page(client, olga):
    client.force_login(olga)

    def get(job: Job, **fields):
        answer = client.get(f"/jobs/{job.label}/ranks", fields)
        assert answer.status_code == 200
        return html.unescape(answer.content.decode())

    return get


@pytest.fixture
def rest(client, olga):
    client.force_login(olga)

    def get(job: Job):
        answer = client.get(f"/api/v1/jobs/{job.label}/ranks")
        assert answer.status_code == 200, answer.content
        return answer.json()

    return get


def a_gang(olga, team, nodes, **fields) -> Job:
    """Two ranks on each node."""
    job = a_job(olga, team, **{"replicas": 4, "device": {"gpus": 1}, "backend": "gloo"} | fields)
    settle(*nodes)
    job.refresh_from_db()
    assert job.status == "running"
    return job


def write(job: Job, rank: int, text: str) -> None:
    try:
        replica = Replica.objects.filter(attempt__job=job, rank=rank).latest("attempt__number")
        write_log(replica, replica.log_bytes, text.encode())
        size = replica.log_bytes + len(text.encode())
        Replica.objects.filter(pk=replica.pk).update(log_bytes=size)
        ring(f"job:{job.pk}")
    finally:
        connection.close()


def active(job: Job, percents: dict[int, int | None]) -> None:
    """What the devices of each rank did over the last minutes."""
    floor = timezone.now().replace(second=0, microsecond=0)
    for held in Allocation.objects.filter(replica__attempt__job=job).select_related("replica"):
        for minute in range(1, stragglers.WINDOW_MINUTES + 1):
            AllocationSample.objects.create(
                allocation=held,
                minute=floor - timedelta(minutes=minute),
                active_percent=percents.get(held.replica.rank),
            )


def step(job: Job, rank: int, number: int, name: str = "loss", attempt: int = 1) -> None:
    fields = {"attempt": attempt, "part": 0, "count": number, "last": 1.0, "last_step": number}
    fields |= {"low": 1.0, "high": 1.0, "updated_at": timezone.now()}
    MetricSeries.objects.update_or_create(job=job, rank=rank, name=name, defaults=fields)


def started(job: Job, minutes: int) -> None:
    at = timezone.now() - timedelta(minutes=minutes)
    Replica.objects.filter(attempt__job=job).update(started_at=at)


def panel(text: str, rank: int) -> str:
    return re.search(rf'<article aria-labelledby="rank-{rank}">.*?</article>', text, re.S)[0]


def test_ranks_stand_by_node_each_with_the_end_of_its_own_log(page, client, olga, team, nodes):
    job = a_gang(olga, team, nodes)
    for rank in range(4):
        write(job, rank, f"<b>line of {rank}</b>\n")
    text = page(job)
    order = re.findall(
        r'<h3[^>]* id="node-\d"><a[^>]*>(n\d)|<article aria-labelledby="rank-(\d)"', text
    )
    found = [node or int(rank) for node, rank in order]
    assert [entry for entry in found if isinstance(entry, int)] == [0, 1, 2, 3]
    assert found[0] in ("n1", "n2") and len([e for e in found if isinstance(e, str)]) == 2
    for rank in range(4):
        own = panel(text, rank)
        assert f"line of {rank}" in own and own.count("line of") == 1
        assert f'href="/jobs/{job.label}/logs?rank={rank}"' in own
    assert "<b>line" not in client.get(f"/jobs/{job.label}/ranks").content.decode()


def test_a_rank_whose_gpu_does_little_is_marked_with_its_sentence(
    page, rest, client, olga, team, nodes
):
    job = a_gang(olga, team, nodes)
    active(job, {0: 96, 1: 95, 2: 20, 3: 97})
    text = page(job)
    assert "Straggler" in panel(text, 2) and "20\N{NO-BREAK SPACE}% active" in panel(text, 2)
    assert "Straggler" not in panel(text, 0) and "96\N{NO-BREAK SPACE}% active" in panel(text, 0)
    sentence = "of rank 2 was 20 % active over the last 5 min, the median of its gang 96 %"
    assert text.count(sentence) == 1
    rows = {row["rank"]: row for row in rest(job)["results"]}
    assert sentence in rows[2]["lags"][0] and rows[2]["active_percent"] == 20
    assert [rank for rank, row in rows.items() if row["lags"]] == [2]
    answer = client.get(f"/jobs/{job.label}/ranks", headers={"Accept-Language": "zh-hans"})
    assert "掉队" in answer.content.decode()


def test_a_rank_whose_steps_are_far_behind_is_marked(page, rest, olga, team, nodes):
    job = a_gang(olga, team, nodes)
    started(job, minutes=60)
    for rank, number in enumerate((1_000, 1_001, 1_000, 700)):
        step(job, rank, number)
    # Of another metric, and of an earlier attempt: not compared.
    step(job, 0, 9_999, name="val")
    text = page(job)
    assert "rank 3 last reported step 700 of loss, the median of its gang is 1000" in text
    assert "step 700" in panel(text, 3) and "Steps are those of <code>loss" in text
    answer = rest(job)
    assert answer["metric"] == "loss"
    assert [row["last_step"] for row in answer["results"]] == [1_000, 1_001, 1_000, 700]


def test_steps_of_an_earlier_attempt_do_not_count(rest, olga, team, nodes):
    job = a_gang(olga, team, nodes)
    for rank, number in enumerate((1_000, 1_001, 1_000, 7)):
        step(job, rank, number, attempt=2 if rank == 3 else 0)
    assert [row["last_step"] for row in rest(job)["results"]] == [None] * 4


def test_what_is_not_measured_is_said_and_never_marked(page, olga, team, nodes):
    job = a_gang(olga, team, nodes)
    active(job, {0: 96, 1: 95, 2: None, 3: 97})
    own = panel(page(job), 2)
    assert "Activity not measured" in own and "Straggler" not in own


def test_of_an_ended_job_nobody_lags_but_the_first_failure_stands_on_top(
    page, rest, olga, team, nodes
):
    job = a_gang(olga, team, nodes, retries={"user": 0, "infrastructure": 0})
    active(job, {0: 96, 1: 95, 2: 97, 3: 5})
    failure = {"rank": 3, "status": "exited", "exit_code": 1, "code": "", "sentence": ""}
    Attempt.objects.update(first_failure=failure)
    Job.objects.update(status="failed", finished_at=timezone.now())
    text = page(job)
    assert "Rank 3 failed first</a>: rank 3 ended with exit code 1" in text
    assert re.search(r'<article aria-labelledby="rank-(\d)"', text)[1] == "3"
    assert "Failed first" in panel(text, 3) and "Straggler" not in text
    rows = rest(job)["results"]
    assert rows[0]["rank"] == 3 and rows[0]["failed_first"]
    # The other rank of its node comes next.
    assert rows[1]["node"] == rows[0]["node"] != rows[2]["node"]


def test_a_large_gang_has_pages_and_each_is_followed_alone(page, olga, team, nodes, monkeypatch):
    monkeypatch.setattr(ranks_tab, "MAX_PANELS", 3)
    job = a_gang(olga, team, nodes)
    first, second = page(job), page(job, page=2)
    assert re.findall(r'<article aria-labelledby="rank-(\d)"', second) == ["3"]
    assert "More ranks" in first and "More ranks" not in second and "Previous ranks" in second
    assert re.search(r'data-stream="[^"]*ranks=0%2C1%2C2', first)
    assert page(job, page=99) and page(job, page="x")


def test_before_it_is_placed_it_says_so(page, rest, olga, team):
    job = a_job(olga, team, replicas=4, device={"gpus": 1}, backend="gloo")
    assert "No ranks yet" in page(job)
    assert rest(job) == {"results": [], "attempt": None, "metric": ""}


def test_only_a_gang_has_the_link(client, olga, team, nodes):
    client.force_login(olga)
    one = a_gang(olga, team, nodes, replicas=1)
    two = a_gang(olga, team, nodes, replicas=2)
    links = [f"/jobs/{job.label}/ranks" for job in (one, two)]
    found = [
        link in client.get(f"/jobs/{job.label}/logs").content.decode()
        for link, job in zip(links, (one, two), strict=True)
    ]
    assert found == [False, True]


# Live


def follow(olga, job: Job, seen: str, until, between=None, ranks=()) -> list[str]:
    texts: list[str] = []

    async def read() -> None:
        watched = FollowedPage(job.label, "ranks", None, PageFace("en", ""), ranks)
        try:
            async with aclosing(
                job_stream_events(olga, job.pk, watched, parse_cursor(seen))
            ) as events:
                async for text in events:
                    texts.append(text)
                    if until(texts):
                        return
                    if between:
                        await asyncio.to_thread(between, len(texts))
        finally:
            await listener().close()

    asyncio.run(asyncio.wait_for(read(), 30))
    return texts


@pytest.fixture(autouse=True)
def hurried(monkeypatch):
    monkeypatch.setattr(job_stream, "PACE_SECONDS", 0)
    monkeypatch.setattr(job_stream, "HEARTBEAT_SECONDS", 5)


def test_new_lines_and_heads_come_live_and_no_line_twice(page, olga, team, nodes):
    job = a_gang(olga, team, nodes)
    write(job, 1, "old\n")
    seen = re.search(r"from=([^&\"]+)", page(job))[1]
    assert re.fullmatch(r"e\d+\.a1\.0-0\.1-4\.2-0\.3-0", seen)
    write(job, 3, "new\n")
    texts = follow(olga, job, seen, lambda got: "event: page" in got[-1])
    log = next(text for text in texts if "event: log" in text)
    assert 'id="r3-1"' in log and "old" not in log
    assert 'data-part="rank-3"' in texts[-1] and 'data-part="ranks"' not in texts[-1]
    assert "<article" not in texts[-1]


def test_a_page_of_some_ranks_gets_the_lines_of_these(olga, team, nodes):
    job = a_gang(olga, team, nodes)
    write(job, 0, "zero\n")
    write(job, 3, "three\n")
    cursor = "e1.a1.2-0.3-0"
    texts = follow(olga, job, cursor, lambda got: "event: page" in got[-1], ranks=(2, 3))
    assert "three" in "".join(texts) and "zero" not in "".join(texts)
    assert 'data-part="rank-2"' in texts[-1] and 'data-part="rank-0"' not in texts[-1]


def test_a_start_brings_the_panels_before_the_lines(page, olga, team, nodes):
    job = a_gang(olga, team, nodes)
    write(job, 2, "first\n")
    texts = follow(olga, job, "e0.a0", lambda got: "event: log" in got[-1])
    panels = next(text for text in texts if "event: page" in text)
    assert panels.count("<article") == 4 and "first" not in panels
    # A browser that loses the lines begins again before the panels.
    assert re.search(r"^id: e0\.a0$", panels, re.M)
    assert texts.index(panels) < len(texts) - 1
