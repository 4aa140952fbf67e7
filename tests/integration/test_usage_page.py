"""The Usage page, its file and its REST call: the same figures, and only one's own."""

from __future__ import annotations

import asyncio
import csv
import io
import re
from datetime import timedelta

import pytest
from django.db import connection
from django.test import AsyncClient
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from agents.contract.codec import encode
from agents.contract.telemetry import GpuSample, MissingReason, MissingValue, SliceSample
from portal.accounts.models import Role
from portal.allocations.models import Allocation, AllocationSample
from portal.inventory.models import Gpu, LatestSample, Slice
from portal.jobs.models import Job
from portal.planning.snapshot_cache import current_snapshot
from portal.quotas.budgets import budget_add
from portal.web.wording.labels import NBSP
from tests.support.held_time import DEVICES, lease
from tests.support.rows import a_job, a_node, a_project, a_user

pytestmark = pytest.mark.django_db(transaction=True)
HOUR = timedelta(hours=1)
GPU_HOUR = 56_000 * 3600


@pytest.fixture
def olga():
    return a_user("olga")


@pytest.fixture
def gpu():
    a_node("n1")
    return Gpu.objects.select_related("node").get()


@pytest.fixture
def vision(olga):
    return a_project("vision", olga)


@pytest.fixture
def job(olga, vision, gpu):
    return a_job(olga, vision, name="train")


@pytest.fixture
def page(client, olga):
    """What a signed-in person gets: (status, text)."""

    def get(user=None, language: str = "en", **query):
        client.force_login(user or olga)
        answer = client.get("/usage/", query, headers={"accept-language": language})
        return answer.status_code, answer.content.decode().replace(NBSP, " ")

    return get


def used(job, gpu, hours: int, device=DEVICES[0], ended_ago: timedelta = HOUR) -> Allocation:
    end = timezone.now() - ended_ago
    return lease(job, gpu, end - hours * HOUR, end, device)


def file_of(user, **query) -> tuple[int, str]:
    """The file as a browser gets it, over ASGI."""

    async def get():
        client = AsyncClient()
        await client.aforce_login(user)
        answer = await client.get("/usage/file.csv", query)
        if not answer.streaming:
            return answer.status_code, answer.content.decode()
        parts = [part async for part in answer.streaming_content]
        return answer.status_code, b"".join(parts).decode()

    return asyncio.run(get())


def test_nobody_sees_usage_without_signing_in(client):
    assert client.get("/usage/").status_code == 302
    assert client.get("/usage/file.csv").status_code == 302
    assert client.get("/api/v1/usage").status_code == 401


def test_with_nothing_used_the_page_says_what_would_be_here(page, vision):
    status, text = page()
    assert status == 200
    assert "Nothing was used in this period" in text
    assert "counted from their allocation" in text
    assert "CSV</a>" not in text


def test_the_title_is_the_answer_and_the_tables_add_up_to_it(page, job, gpu):
    used(job, gpu, 3)
    used(job, gpu, 2, DEVICES[1])
    status, text = page(period="30-days")
    assert status == 200
    assert "<h1>You used 3.58 GPU-hours</h1>" in text  # 3 + 2 × 2/7, rounded up
    assert f"{3 * GPU_HOUR + 2 * 16_000 * 3600} unit-seconds" in text
    assert "MIG slices" in text and "whole GPUs" in text


def test_a_chinese_reader_gets_chinese(page, job, gpu):
    used(job, gpu, 3)
    assert "<h1>你用了 3.00 GPU 时</h1>" in page(language="zh-hans", period="30-days")[1]


def test_there_is_no_inline_style_or_script(page, job, gpu):
    used(job, gpu, 3)
    lease(job, gpu, timezone.now() - HOUR, None)
    text = page(period="30-days")[1]
    assert "style=" not in text
    assert not re.search(r"<script(?![^>]*\bsrc=)|\son[a-z]+=", text)
    assert text.count("<h1") == 1


def test_own_project_and_all_are_each_shown_only_to_whom_they_belong(page, olga, job, gpu, vision):
    otto, root = a_user("otto"), a_user("root", is_superuser=True)
    secret = a_project("secret", otto)
    colleague = a_user("cleo")
    vision.memberships.create(user=colleague, role=Role.VIEWER)
    used(job, gpu, 1)
    used(a_job(otto, secret, name="zebra"), gpu, 2)
    asked = {"period": "30-days"}
    assert "You used 1.00" in page(**asked)[1]
    assert "vision used 1.00" in page(of="project:vision", **asked)[1]
    assert "Nothing was used" in page(colleague, **asked)[1]
    assert "vision used 1.00" in page(colleague, of="project:vision", **asked)[1]
    assert "All projects used 3.00" in page(root, of="all", **asked)[1]
    for of in ("all", "project:secret", "project:none", "x"):
        assert page(of=of)[0] == 404, of
        assert file_of(olga, of=of)[0] == 404, of
    text = page(of="project:vision", **asked)[1] + page(**asked)[1]
    assert not {"secret", "otto", "zebra"} & set(re.findall(r"\w+", text))


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ({"from": "<b>soon</b>", "until": "2026-01-02"}, "Enter a date as year-month-day"),
        ({"from": "2026-02-31", "until": "2026-03-01"}, "Enter a date as year-month-day"),
        ({"from": "2026-01-05", "until": "2026-01-01"}, "The last day is before the first"),
        ({"from": "2020-01-05", "until": "2026-01-01"}, "Choose at most 366 days"),
        ({"from": "8999-01-05", "until": "8999-01-06"}, "The first day is in the future"),
        ({"from": "0001-01-01", "until": "9999-12-31"}, "Enter a date as year-month-day"),
    ],
)
def test_days_that_make_no_sense_stay_in_the_form_with_what_to_do(page, vision, query, said):
    status, text = page(**query)
    assert status == 400
    assert said in text
    assert 'aria-invalid="true"' in text
    assert "<b>soon" not in text
    if "<" not in query["from"]:
        assert f'value="{query["from"]}"' in text


def test_the_bars_hold_every_day_and_their_table_the_same_numbers(page, job, gpu):
    used(job, gpu, 30)
    text = page(period="7-days")[1]
    assert len(re.findall(r'<rect class="likely"', text)) == 7
    rows = re.findall(r'<th scope="row" class="nowrap">\d+ \w+</th><td class="num">([\d.]+)<', text)
    assert sum(float(hours) for hours in rows) == pytest.approx(30, abs=0.05)


def test_the_file_has_each_allocation_once_and_adds_up_to_the_page(olga, job, gpu):
    rows = [used(job, gpu, n, DEVICES[n % 3]) for n in range(1, 4)]
    today = timezone.localdate()
    query = {"from": str(today - timedelta(days=20)), "until": str(today)}
    status, text = file_of(olga, **query)
    lines = list(csv.DictReader(io.StringIO(text)))
    assert status == 200
    assert len(lines) == 3
    total = sum(int(line["unit_seconds"]) for line in lines)
    assert total == sum(row.units * row.used_seconds for row in rows)


def test_the_file_comes_in_parts_and_loses_nothing_between_them(olga, job, gpu, monkeypatch):
    monkeypatch.setattr("portal.usage.export.CHUNK_ROWS", 2)
    end = timezone.now() - HOUR
    for n in range(5):
        lease(job, gpu, end - HOUR, end - n * timedelta(seconds=1))
    lines = list(csv.DictReader(io.StringIO(file_of(olga, period="30-days")[1])))
    assert len(lines) == len({line["unit_seconds"] for line in lines}) == 5


@pytest.mark.parametrize("name", ["=cmd()", "+1", "-1", "@x", "\t=1"])
def test_no_cell_of_the_file_is_a_formula(olga, job, gpu, name):
    Job.objects.filter(pk=job.pk).update(name=name)
    used(job, gpu, 1)
    lines = list(csv.DictReader(io.StringIO(file_of(olga, period="30-days")[1])))
    assert lines[0]["name"] == f"'{name}"


def sampled(gpu, **fields) -> None:
    sample = GpuSample(**{"uuid": gpu.uuid} | fields)
    LatestSample.objects.create(gpu=gpu, taken_at=timezone.now(), sample=encode(sample))


def minutes(row: Allocation, percents: list[int | None]) -> None:
    now = timezone.now().replace(second=0, microsecond=0)
    AllocationSample.objects.bulk_create(
        AllocationSample(allocation=row, minute=now - timedelta(minutes=n), active_percent=p)
        for n, p in enumerate(percents)
    )


def test_what_is_held_stands_beside_what_sensors_saw_of_it(page, job, gpu):
    row = lease(job, gpu, timezone.now() - HOUR, None)
    sampled(gpu, utilization_percent=87)
    minutes(row, [80, 90, None])
    text = page()[1]
    assert "Allocated now: 1 GPUs" in text
    assert '<td class="num">87 %</td><td class="num">≤ 85 %</td>' in text
    assert "at most 85 % was used over the last hour" in text
    assert "left idle" not in text


def test_a_slice_is_measured_by_itself_and_its_gpus_number_is_not_taken_for_it(page, job, gpu):
    row = lease(job, gpu, timezone.now() - HOUR, None, DEVICES[1])
    Slice.objects.filter(pk=row.slice_id).update(device_uuid="MIG-a")
    pieces = (
        SliceSample("MIG-b", 6, "2g.35gb", active_percent=99),
        SliceSample(
            "MIG-a",
            7,
            "2g.35gb",
            missing=(MissingValue("active_percent", MissingReason.ARCHITECTURE),),
        ),
    )
    sampled(gpu, utilization_percent=97, slices=pieces)
    text = page()[1]
    assert "not measurable on this GPU architecture" in text
    assert "97 %" not in text and "99 %" not in text and ">0 %<" not in text


def test_a_share_is_not_measurable_and_an_old_sample_says_nothing(page, job, gpu):
    lease(job, gpu, timezone.now() - HOUR, None, DEVICES[2])
    assert "not measurable for a share" in page()[1]
    Allocation.objects.all().delete()
    lease(job, gpu, timezone.now() - HOUR, None)
    sampled(gpu, utilization_percent=87)
    LatestSample.objects.update(taken_at=timezone.now() - timedelta(minutes=5))
    text = page()[1]
    assert "waiting for a sample" in text and "87 %" not in text


def test_only_who_did_nothing_for_long_is_called_idle(page, job, gpu):
    row = lease(job, gpu, timezone.now() - HOUR, None)
    minutes(row, [2] * 9)
    assert "1 idle" not in page()[1]
    AllocationSample.objects.all().delete()
    minutes(row, [2] * 12)
    assert "1 idle" in page()[1]
    AllocationSample.objects.filter(active_percent=2).order_by("pk")[:1].get()
    AllocationSample.objects.all().delete()
    minutes(row, [2] * 12 + [60])
    assert "1 idle" not in page()[1]


def budget(home, hours: int, *, user=None, days_left: int = 7) -> None:
    now = timezone.now()
    budget_add(
        project=home,
        user=user,
        limit_unit_seconds=hours * GPU_HOUR,
        starts_at=now - timedelta(days=20),
        ends_at=now + timedelta(days=days_left),
        actor="root",
    )


def test_a_budget_says_whether_it_lasts_and_by_what_it_reckons(page, job, gpu, vision):
    used(job, gpu, 7, ended_ago=timedelta(days=8))
    used(job, gpu, 14)
    budget(vision, 100)
    text = page()[1]
    assert re.search(r"At this pace, 3[45]\.\d\d by <time [^>]+>[^<]+</time>: within budget", text)
    assert "the mean rate of the last 7 days" in text


def test_a_budget_that_will_not_last_says_when_it_ends(page, job, gpu, vision):
    used(job, gpu, 7, ended_ago=timedelta(days=8))
    used(job, gpu, 14)
    budget(vision, 30)
    assert "At this pace it is used up on" in page()[1]


def test_without_a_day_of_use_there_is_no_forecast(page, job, gpu, vision):
    used(job, gpu, 2)
    budget(vision, 100)
    text = page()[1]
    assert "No forecast yet" in text and "Less than a day of usage" in text
    assert "At this pace" not in text


def test_other_peoples_budgets_are_their_own_and_their_admins(page, olga, vision, job):
    otto, boss = a_user("otto"), a_user("bo")
    vision.memberships.create(user=otto, role=Role.MEMBER)
    vision.memberships.create(user=boss, role=Role.ADMIN)
    budget(vision, 17, user=otto)
    of = "project:vision"
    assert "17.00" not in page(of=of)[1]
    assert "17.00" in page(otto, of=of)[1]
    assert "17.00" in page(boss, of=of)[1]


def test_the_page_asks_as_often_for_many_rows_as_for_few(client, olga, job, gpu, vision):
    client.force_login(olga)

    def count() -> int:
        """With the snapshot that the process keeps, of which the page reads what is promised."""
        current_snapshot()
        with CaptureQueriesContext(connection) as asked:
            client.get("/usage/", {"of": "project:vision", "period": "30-days"})
        return len(asked)

    def more(number: int) -> None:
        for n in range(number):
            used(job, gpu, 2 + n, DEVICES[n % 3])
            lease(job, gpu, timezone.now() - HOUR, None, DEVICES[n % 3])
        budget(vision, 100 + number)

    more(2)
    few = count()
    more(8)
    assert count() == few < 20


def rest(client, user, **query):
    client.force_login(user)
    answer = client.get("/api/v1/usage", query)
    return answer.status_code, answer.json()


def test_rest_gives_the_same_sum_however_it_is_split(client, olga, job, gpu, vision):
    rows = [used(job, gpu, n, DEVICES[n % 3]) for n in range(1, 4)]
    since = (timezone.now() - timedelta(days=9)).isoformat()
    total = sum(row.units * row.used_seconds for row in rows)
    for by in ("", "user", "kind", "project,user", "model,kind"):
        status, body = rest(client, olga, of="project:vision", by=by, **{"from": since})
        assert status == 200
        assert body["unit_seconds"] == total
        assert sum(row["unit_seconds"] for row in body["results"]) == total
        assert all(row["model"] is None for row in body["results"]) is ("model" not in by)
    assert rest(client, olga, **{"from": since})[1]["results"][0]["model"] == "H200"


def test_two_halves_of_a_window_over_rest_add_up(client, olga, job, gpu):
    used(job, gpu, 5)
    edges = [(timezone.now() - timedelta(hours=h)).isoformat() for h in (9, 4, 0)]

    def between(start: str, end: str) -> int:
        return rest(client, olga, **{"from": start, "to": end})[1]["unit_seconds"]

    whole = between(edges[0], edges[2])
    assert whole == 5 * GPU_HOUR
    assert between(edges[0], edges[1]) + between(edges[1], edges[2]) == whole


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ({"from": "yesterday"}, "from"),
        ({"to": "2026-13-01"}, "to"),
        ({"from": "2026-02-01", "to": "2026-01-01"}, "to"),
        ({"from": "2020-01-01", "to": "2026-01-01"}, "from"),
        ({"by": "user,shoe"}, "by"),
    ],
)
def test_rest_says_which_field_is_wrong(client, olga, query, field):
    status, body = rest(client, olga, **query)
    assert status == 400
    assert body["errors"][0]["field"] == field


def test_a_foreign_project_reads_as_none_over_rest(client, olga):
    a_project("secret", a_user("otto"))
    foreign, unknown = (rest(client, olga, of=f"project:{p}") for p in ("secret", "none"))
    assert foreign[0] == 404
    for _, problem in (foreign, unknown):
        del problem["request_id"]  # each has its own
    assert foreign == unknown
    assert rest(client, olga, of="all")[0] == 404
