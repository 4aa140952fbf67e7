"""What the page of an ended job says of its GPU memory: ask for less next time."""

from __future__ import annotations

import re
from datetime import timedelta

import pytest
from django.test import Client
from django.utils import timezone

from portal.allocations.models import Allocation, AllocationSample
from portal.jobs.models import Job, Replica
from tests.support.rows import a_job, a_node, a_project, a_user, settle

pytestmark = pytest.mark.django_db(transaction=True)
MINUTE = timedelta(minutes=1)
RUN = 30


@pytest.fixture
def olga(client: Client):
    olga = a_user("olga")
    client.force_login(olga)
    return olga


@pytest.fixture
def team(olga):
    return a_project("vision", olga)


def ended(olga, team, *used_mib: int | None, minutes: int = RUN, measured: int = RUN, **fields):
    """A job that ran for so long; each of its devices was measured in so many minutes."""
    node = a_node("n1", gpus=2)
    job = a_job(olga, team, **fields)
    settle(node)
    node.finish()
    settle(node)
    end = timezone.now().replace(second=0, microsecond=0)
    start = end - minutes * MINUTE
    Replica.objects.update(started_at=start, finished_at=end)
    for allocation, used in zip(
        Allocation.objects.order_by("replica__rank"), used_mib, strict=True
    ):
        AllocationSample.objects.bulk_create(
            AllocationSample(
                allocation=allocation,
                minute=start + n * MINUTE,
                memory_used_mib=used if n else (used or 0) // 2,
                memory_total_mib=35 << 10,
                why={},
            )
            for n in range(measured)
        )
    return Job.objects.get(pk=job.pk)


def advice(client: Client, job: Job) -> str:
    text = client.get(f"/jobs/{job.label}/").content.decode().replace("\u00a0", " ")
    found = re.search(r"<h3>Next time</h3><p>(.*?)</p>", text)
    return found[1] if found else ""


def test_it_asks_for_the_next_smaller_size_with_a_quarter_to_spare(client, olga, team):
    job = ended(olga, team, 11 << 10)
    said = advice(client, job)
    assert said == "It used at most 11 GiB of the 35 GiB of its device. Ask for 16 GB next time."
    text = client.get(f"/jobs/{job.label}/").content.decode()
    found = re.search(r'<h3>Next time</h3>.*?href="(/request/\?like=[^"]*change=[^"]*)"', text)
    assert found
    form = client.get(found[1].replace("&amp;", "&")).content.decode()
    assert re.search(r'name="amount" value="memory:16GiB" checked', form)


def test_of_a_gang_the_rank_that_used_most_counts(client, olga, team):
    job = ended(olga, team, 2 << 10, 11 << 10, replicas=2)
    assert "None of its replicas used more than 11 GiB" in advice(client, job)


@pytest.mark.parametrize(
    ("used", "fields"),
    [
        ((30 << 10,), {}),
        ((11 << 10,), {"measured": RUN // 2}),
        ((11 << 10,), {"minutes": 3, "measured": 3}),
        ((None,), {}),
        ((11 << 10, None), {"replicas": 2}),
        ((1 << 10,), {"device": {"mig": "1g.18gb"}}),
        ((1 << 10, 1 << 10), {"device": {"gpus": 2}}),
    ],
    ids=[
        "all used",
        "half measured",
        "short",
        "unmeasured",
        "one rank unmeasured",
        "smallest",
        "two",
    ],
)
def test_nothing_is_said_that_was_not_measured_or_would_save_nothing(
    client, olga, team, used, fields
):
    assert advice(client, ended(olga, team, *used, **fields)) == ""


def test_a_job_that_failed_is_told_nothing(client, olga, team):
    job = ended(olga, team, 11 << 10)
    Job.objects.update(status="failed")
    assert advice(client, job) == ""
