"""The Queue page beside its rows: what frees up over time, scores, groups of others, the CSV."""

import asyncio
import csv
import re
from datetime import timedelta

import pytest
from django.test import AsyncClient
from django.utils import timezone

from portal.allocations.freeing import units_freeing
from portal.jobs.models import Job
from portal.planning.order_factors import order_factors
from portal.quotas.policy import policy_set
from portal.web.queue.freeing_chart import SPANS, freeing_chart, horizon_for, span_ends
from scheduler.core.model.policy import Policy
from tests.support.many_jobs import many_jobs
from tests.support.rows import a_job, a_node, a_project, a_user, settle

pytestmark = pytest.mark.django_db(transaction=True)
GPU = 56_000


@pytest.fixture
def full(olga, team):
    """A node of two GPUs: olga has one for an hour, eve one for five; others of theirs wait."""
    eve = a_user("eve")
    secret = a_project("secret", eve)
    node = a_node("n1", gpus=2)
    a_job(olga, team, name="runs", device={"gpus": 1}, time_limit="1h")
    a_job(eve, secret, name="zebra-0", device={"gpus": 1}, time_limit="5h")
    settle(node)
    for number in range(1, 5):
        a_job(eve, secret, name=f"zebra-{number}", device={"gpus": 1})
    a_job(olga, team, name="alpha", device={"gpus": 2})
    settle(node)
    return node


@pytest.fixture
def page(client, olga):
    client.force_login(olga)

    def get(query=""):
        answer = client.get(f"/queue/{query}")
        assert answer.status_code == 200
        return answer.content.decode()

    return get


def csv_rows(user, query=""):
    async def read():
        client = AsyncClient()
        await client.aforce_login(user)
        answer = await client.get(f"/queue.csv{query}")
        if not answer.streaming:
            return answer, answer.content.decode()
        return answer, b"".join([part async for part in answer.streaming_content]).decode()

    return asyncio.run(read())


def test_units_are_counted_in_the_span_in_which_their_job_ends(full, olga):
    now = timezone.now()
    (model,) = units_freeing(olga, span_ends(now, timedelta(hours=6)))
    assert model.model == "H200"
    assert sum(model.total) == 2 * GPU
    assert model.total[1] == model.own[1] == GPU, "olga's ends within the second half-hour"
    assert model.total[9] == GPU and model.own[9] == 0
    eve = a_user("mallory")
    assert sum(units_freeing(eve, span_ends(now, timedelta(hours=6)))[0].own) == 0


def test_what_waits_or_has_ended_frees_nothing(full, olga):
    Job.objects.filter(name="runs").update(status="stopping")
    (model,) = units_freeing(olga, span_ends(timezone.now(), timedelta(hours=6)))
    assert sum(model.total) == GPU


def test_the_horizon_is_the_shortest_in_which_something_ends():
    now = timezone.now()
    hours = {1: 6, 5: 6, 7: 24, 30: 168}
    for first, horizon in hours.items():
        assert horizon_for(now + timedelta(hours=first), now) == timedelta(hours=horizon)
    assert horizon_for(now + timedelta(days=8), now) is None
    assert horizon_for(None, now) is None


def test_the_picture_says_in_words_and_as_a_table_what_it_draws(page, full):
    text = page()
    assert "What frees up in the next 6" in text
    assert re.search(
        r'role="img" aria-label="At the latest, these become free[^"]*H200: 2 GPU', text
    )
    table = text.partition("GPUs free by then")[2].partition("</table>")[0]
    cells = re.findall(r'<td class="num">([^<]+)<', table)
    assert cells == ["1", "1", "1", "1", "2", "2"]


def test_the_picture_names_no_job(full, olga):
    models = units_freeing(olga, span_ends(timezone.now(), timedelta(hours=6)))
    drawn = str(freeing_chart(models, timedelta(hours=6)))
    assert "zebra" not in drawn and "eve" not in drawn
    assert drawn.count("FreeingBar(") == 2 <= SPANS


def test_neighbouring_jobs_of_others_are_one_row_that_can_be_opened(page, full):
    text = page()
    queue = text.partition('data-part="queue"')[2].partition('data-part="frees-next"')[0]
    assert "4 jobs of other projects" in queue
    assert "a job of another project" not in queue
    assert "zebra" not in queue
    listed = page("?others=each").partition('data-part="queue"')[2]
    assert listed.partition('data-part="frees-next"')[0].count("a job of another project") == 4
    assert "jobs of other projects" not in listed


def test_jobs_with_and_without_a_position_are_not_one_group(page, full):
    """Their row would say "3–3" of four jobs."""
    last = Job.objects.filter(name__startswith="zebra", position__isnull=False).order_by("position")
    Job.objects.filter(pk__in=[row.pk for row in list(last)[1:]]).update(position=None)
    queue = page().partition('data-part="queue"')[2].partition('data-part="frees-next"')[0]
    assert "3 jobs of other projects" in queue
    assert queue.count("a job of another project") == 1


def test_a_platform_admin_reads_every_row(client, full):
    client.force_login(a_user("root", is_superuser=True))
    assert "jobs of other projects" not in client.get("/queue/").content.decode()


def test_a_score_says_its_numbers(page, full):
    policy_set(actor="root", order="fair", patience_seconds=3600)
    Job.objects.filter(name="alpha").update(queued_at=timezone.now() - timedelta(hours=1))
    text = page("?whose=mine")
    assert "At most 2 GPU-hours; after waiting 1" in text
    assert "they count as 1" in text
    policy_set(actor="root", order="fifo")
    assert "GPU-hours; after waiting" not in page()


def test_factors_of_a_slice_are_those_of_its_share(full, olga, team):
    job = a_job(olga, team, device={"mig": "1g.18gb"}, replicas=2, topology="any", time_limit="2h")
    factors = order_factors([job], Policy(), timezone.now())[job.pk]
    assert factors.units == 2 * 8_000
    assert factors.work_unit_seconds == 16_000 * 7200


def test_the_csv_has_every_row_and_the_names_of_ones_own_only(full, olga):
    answer, text = csv_rows(olga)
    assert answer["Content-Type"].startswith("text/csv")
    assert "attachment" in answer["Content-Disposition"]
    rows = list(csv.DictReader(text.lstrip("\ufeff").splitlines()))
    assert len(rows) == 5
    assert {row["name"] for row in rows} == {"alpha", ""}
    foreign = next(row for row in rows if not row["name"])
    assert foreign["reason"] == "resources" and foreign["device"] == "1 GPU"
    assert not any(foreign[name] for name in ("job", "owner", "project", "why"))
    assert "zebra" not in text and "eve" not in text


def test_the_csv_follows_the_filters_and_refuses_wrong_ones(full, olga):
    assert len(csv_rows(olga, "?whose=mine")[1].splitlines()) == 2
    answer, text = csv_rows(olga, "?whose=project-secret")
    assert answer.status_code == 400
    assert "not a valid choice" in text


def test_a_long_queue_is_a_csv_of_all_its_rows(full, olga):
    many_jobs(Job.objects.get(name="alpha"), 1_100, first=10)
    assert len(csv_rows(olga)[1].splitlines()) == 1 + 5 + 1_100
