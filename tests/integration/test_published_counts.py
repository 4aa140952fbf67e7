"""On a large cluster, pages show what the last planning pass left."""

import logging
from datetime import UTC, datetime, timedelta

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from portal.availability import published
from portal.availability.models import PublishedCounts
from portal.availability.selectors import availability_for
from portal.inventory.models import Node
from portal.jobs.services import job_cancel
from portal.live import bell
from portal.planning import snapshot_cache
from scheduler import tasks
from scheduler.core.availability.counts import MPS_SHARE, Category
from scheduler.tasks import plan_once
from tests.support.markup import without_time_tags
from tests.support.rows import a_job, a_node, a_project, a_user, settle

pytestmark = pytest.mark.django_db(transaction=True)
SHARE = {"mps": {"threads": 25, "memory": "8GiB"}}


@pytest.fixture(autouse=True)
def large(monkeypatch):
    """Every cluster counts as large, and no pass is made but by the test."""
    monkeypatch.setattr(published, "PUBLISHED_FROM", 1)
    monkeypatch.setattr(bell, "_send", lambda name, *arguments: None)


def free_gpus(user) -> int:
    return availability_for(user).total.free_gpus


def test_counts_are_those_of_the_last_pass_and_no_page_reads_the_cluster(olga, team):
    a_node("n1", gpus=4)
    plan_once()
    snapshot_cache.clear()
    assert free_gpus(olga) == 4
    with CaptureQueriesContext(connection) as queries:
        assert free_gpus(olga) == 4
    assert len(queries) == 1
    assert not snapshot_cache._last


def test_what_is_submitted_and_cancelled_counts_from_the_next_pass_on(olga, team):
    node = a_node("n1", gpus=4)
    plan_once()
    job = a_job(olga, team, device={"gpus": 1})
    assert free_gpus(olga) == 4
    plan_once()
    counts = availability_for(olga).total
    assert (counts.free_gpus, counts.units[Category.RESERVED]) == (3, 56_000), "as it decided"
    settle(node)
    plan_once()
    assert availability_for(olga).total.units[Category.HELD] == 56_000
    job_cancel(job=job, actor="olga")
    settle(node)
    plan_once()
    assert free_gpus(olga) == 4


def test_of_passes_that_follow_at_once_only_some_count_and_the_last_one_does(
    olga, team, monkeypatch
):
    a_node("n1", gpus=4)
    plan_once()
    a_job(olga, team, device={"gpus": 1})
    with monkeypatch.context() as rung:
        rung.setattr(tasks, "is_plan_rung", lambda: True)
        plan_once()
        assert free_gpus(olga) == 4, "counted a moment ago, and another pass follows"
        rung.setattr(published, "PAUSE_SECONDS", 0)
        plan_once()
        assert free_gpus(olga) == 3, "counted long ago"
    a_job(olga, team, device={"gpus": 1})
    plan_once()
    assert free_gpus(olga) == 2, "no other pass follows"


@pytest.mark.parametrize("path", ["/", "/queue/", "/cluster/", "/cluster/n1/", "/request/"])
def test_a_page_says_when_it_was_counted(olga, team, path):
    a_node("n1")
    client = Client()
    client.force_login(olga)
    assert "Counted at" not in client.get(path).content.decode(), "it was counted just now"
    plan_once()
    text = without_time_tags(client.get(path).content.decode())
    at = datetime.fromtimestamp(availability_for(olga).at, UTC)
    assert f"Counted at {timezone.localtime(at):%H:%M:%S}." in text


def test_room_beside_shares_is_for_those_of_the_project(olga, team):
    """What is published is common; each viewer's part is made of it and stays with them."""
    node = a_node("n1")
    a_job(olga, team, device=SHARE)
    settle(node)
    plan_once()
    otto = a_user("otto")
    a_project("speech", otto)
    for _ in range(2):
        assert availability_for(olga).total.of(MPS_SHARE).ready == 1
        assert availability_for(otto).total.of(MPS_SHARE).available == 0
        assert not availability_for(otto).share_room


def test_a_pass_that_was_cut_short_publishes_nothing(olga, team, monkeypatch):
    a_node("n1", gpus=4)
    plan_once()
    before = PublishedCounts.objects.get()
    for _ in range(3):
        a_job(olga, team, device={"gpus": 1})
    monkeypatch.setattr(tasks, "DECIDE_SECONDS", 0.0)
    plan_once()
    assert PublishedCounts.objects.get().published_at == before.published_at
    monkeypatch.setattr(tasks, "DECIDE_SECONDS", 60.0)
    plan_once()
    assert PublishedCounts.objects.get().published_at > before.published_at
    assert free_gpus(olga) == 1


def test_counts_that_nobody_renews_are_not_shown(olga, team):
    a_node("n1")
    plan_once()
    a_node("n2")
    assert free_gpus(olga) == 1
    for age in (published.MAX_AGE_SECONDS, -published.MAX_AGE_SECONDS):
        moment = timezone.now() - timedelta(seconds=age * 2)
        PublishedCounts.objects.update(published_at=moment)
        assert free_gpus(olga) == 2


def test_counts_that_cannot_be_read_are_not_shown(olga, team, caplog):
    """As of a worker of a later version."""
    a_node("n1")
    plan_once()
    PublishedCounts.objects.update(document='{"version": 3}')
    a_node("n2")
    with caplog.at_level(logging.WARNING):
        assert [free_gpus(olga), free_gpus(olga)] == [2, 2]
    assert [record.message for record in caplog.records] == [
        "published counts cannot be read, so this process counts: version 3, not 2"
    ]


def test_a_cluster_that_became_small_shows_what_is_so_now(olga, team, monkeypatch):
    a_node("n1")
    plan_once()
    monkeypatch.setattr(published, "PUBLISHED_FROM", 500)
    plan_once()
    assert not PublishedCounts.objects.exists()
    a_node("n2")
    assert free_gpus(olga) == 2


def test_boards_that_only_their_driver_knows_are_read_from_the_rows(olga):
    node = a_node("n1")
    node.unknown = "NVIDIA X1"
    node.report()
    plan_once()
    found = availability_for(olga)
    assert list(found.boards) == list(found.board_table) == ["NVIDIA X1"]
    Node.objects.update(status="retired")
    PublishedCounts.objects.update(published_at=timezone.now())
    Node.objects.all().first().gpus.all().delete()
    assert not availability_for(olga).boards, "it counts itself"
