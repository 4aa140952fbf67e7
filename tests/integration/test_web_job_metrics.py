"""What jobs report, on pages: the Metrics tab, its stream, the comparison and its file."""

import asyncio
import re
from contextlib import aclosing

import pytest
from asgiref.sync import sync_to_async

from agents.contract.job_metrics import SkippedCount, SkipReason
from portal.jobs.models import Job, Replica
from portal.web.job import stream as job_stream
from portal.web.job.stream import FollowedPage, job_stream_events
from portal.web.page_parts import PageFace
from tests.support.job_metrics import metrics_report, series_points
from tests.support.rows import a_job, a_node, a_project, a_user, settle

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def olga():
    return a_user("olga")


@pytest.fixture
def team(olga):
    return a_project("vision", olga)


@pytest.fixture
def node():
    return a_node("n1", gpus=2)


@pytest.fixture
def page(client, olga):
    client.force_login(olga)

    def get(path):
        answer = client.get(path)
        assert answer.status_code == 200, (path, answer.status_code)
        return answer.content.decode()

    return get


def start(olga, team, node, name="sum") -> Job:
    job = a_job(olga, team, name=name)
    settle(node)
    job.refresh_from_db()
    assert job.status == "running"
    return job


def report(job: Job, *series, skipped=()) -> None:
    metrics_report(Replica.objects.get(attempt__job=job), *series, skipped=skipped)


def test_a_job_that_reported_nothing_says_how(page, olga, team):
    job = a_job(olga, team)
    text = page(f"/jobs/{job.label}/metrics")
    assert "The job has reported no metrics yet" in text
    assert "print(&quot;tessera-metric&quot;, json.dumps(" in text
    assert "TESSERA_METRICS_FILE" in text


def test_the_tab_draws_what_was_reported_and_says_what_was_skipped(page, olga, team, node):
    job = start(olga, team, node)
    skipped = (SkippedCount(SkipReason.NOT_FINITE, 3), SkippedCount(SkipReason.NOT_JSON, 12))
    report(job, series_points("loss", (1, 0.9), (400, 0.25)), skipped=skipped)
    text = page(f"/jobs/{job.label}/metrics")
    assert "loss: 0.25 at step 400, between 0.25 and 0.9" in text
    assert '<polyline class="s1"' in text
    assert "12 no JSON object; 3 with a value that is not finite (NaN or infinite)." in text
    assert "TESSERA_METRICS_FILE" not in text


def test_a_training_that_reports_tokens_has_its_utilisation_beside_the_expected_one(
    page, olga, team, node
):
    command = ["python", "train.py", "--model", "qwen2.5-1.5b", "--sequence-length", "4096"]
    device = {"gpus": 1, "models": ["H200"]}
    job = a_job(olga, team, command=command, device=device)
    settle(node)
    report(job, series_points("loss", (1, 0.9)))
    assert "Model FLOPs utilisation" not in page(f"/jobs/{job.label}/metrics")
    report(
        job,
        series_points("tokens_per_second", (1, 9), (2, 20_000), (3, 20_000)),
        series_points("tokens_per_step", (1, 8 * 4096)),
    )
    text = page(f"/jobs/{job.label}/metrics").replace("\u00a0", " ")
    assert re.search(
        r'<td class="num"><b>2\d\.\d %</b></td><td class="num">[45]\d\.\d %</td>', text
    )
    assert "20,000 tokens/s × " in text
    assert "FLOP/s of 1 × H200 in 16 bits (PaLM, arXiv 2204.02311, B)." in text
    assert "with 8 sequences a step: TP 1, PP 1, CP 1, DP 1, ZeRO 1" in text


def test_a_step_time_serves_as_well_and_what_a_share_may_reach_is_unknown(page, olga, team, node):
    job = start(olga, team, node)
    report(job, series_points("step_seconds", (1, 2.0)), series_points("tokens_per_step", (1, 800)))
    text = page(f"/jobs/{job.label}/metrics")
    assert '<td class="num">400</td><td class="num">not known</td>' in text
    assert "What a token costs is not known." in text


def test_an_open_tab_gets_new_points_by_its_stream(olga, team, monkeypatch, node):
    monkeypatch.setattr(job_stream, "PACE_SECONDS", 0)
    job = start(olga, team, node)
    followed = FollowedPage(job.label, "metrics", None, PageFace("en", "UTC"))

    async def until(events, part):
        async for event in events:
            if part in event:
                return

    async def scenario():
        async with (
            asyncio.timeout(300),
            aclosing(job_stream_events(olga, job.pk, followed, None)) as events,
        ):
            await until(events, "has reported no metrics yet")
            await sync_to_async(report)(job, series_points("loss", (7, 0.5)))
            await until(events, "0.5 at step 7")

    asyncio.run(scenario())


def test_chosen_jobs_are_compared_and_others_that_report_the_same_are_offered(
    page, olga, team, node
):
    first, second, third = (start(olga, team, node, name) for name in ("one", "two", "three"))
    report(first, series_points("loss", (1, 0.9), (2, 0.1)), series_points("acc", (2, 0.5)))
    report(second, series_points("loss", (1, 0.8), (2, 0.4)))
    report(third, series_points("loss", (1, 0.7)))
    text = page(f"/jobs/compare?job={first.label}&job={second.pk}&job=J-999&job=")
    assert "1 job does not exist, or you may not see it." in text
    assert '<polyline class="s1" points="0.0,' in text
    assert '<polyline class="s2" points="0.0,' in text
    assert f'value="{third.label}">three' in text
    assert f'value="{first.label}" checked' in text


def test_jobs_of_other_projects_are_neither_compared_nor_offered(page, olga, team, node):
    eve = a_user("eve")
    foreign = start(eve, a_project("secret", eve), node, "foreign")
    report(foreign, series_points("loss", (1, 0.123)))
    text = page(f"/jobs/compare?job={foreign.label}")
    assert "0.123" not in text
    assert "foreign" not in text
    assert "0.123" not in page(f"/jobs/compare.csv?job={foreign.label}")


def test_the_file_has_each_point(page, olga, team, node):
    job = start(olga, team, node)
    report(job, series_points("loss", (1, 0.5), (2, -0.25)))
    lines = page(f"/jobs/compare.csv?job={job.label}").lstrip("\ufeff").split()
    assert lines[0] == "job,name,rank,step,value"
    assert lines[1] == f"{job.label},loss,0,1,0.5"
