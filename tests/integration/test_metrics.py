"""`/metrics`: who may read it, what is in it, and that no request can add to its names."""

import asyncio
from dataclasses import replace
from datetime import timedelta
from threading import Event
from types import SimpleNamespace

import httpx
import pytest
from django.db import OperationalError
from django.test import Client
from django.utils import timezone
from prometheus_client.parser import text_string_to_metric_families

from portal.asgi import application
from portal.inventory.models import Node
from portal.jobs.models import Job
from portal.leases.models import TaskLease
from portal.live.listener import listener
from portal.monitoring import cluster, counts
from portal.monitoring.cluster import ClusterMetrics
from portal.monitoring.exposition import Exposition
from portal.platform import Platform
from scheduler.core.model.states import JobStatus, NodeStatus
from tests.support.rows import a_job, a_node, a_project, a_user

pytestmark = pytest.mark.django_db(transaction=True)
TOKEN = "s" * 40
# Asked by address, as Prometheus does.
SCRAPER = "http://172.18.0.7:8000"


@pytest.fixture(autouse=True)
def production(settings, monkeypatch):
    settings.ALLOWED_HOSTS = ["gpu.example.org"]
    settings.SECURE_SSL_REDIRECT = True
    settings.PLATFORM = replace(settings.PLATFORM, metrics_token=TOKEN)
    # A busy machine answers late.
    monkeypatch.setattr(cluster, "WAIT_SECONDS", 300.0)


def ask(token=TOKEN, method="GET", path="/metrics", scheme="Bearer"):
    async def call():
        transport = httpx.ASGITransport(app=application)
        value = f"{scheme} {token}".encode("latin-1")
        headers = {"Authorization": value} if token is not None else {}
        async with httpx.AsyncClient(transport=transport, base_url=SCRAPER) as client:
            try:
                return await client.request(method, path, headers=headers)
            finally:
                await listener().close()

    return asyncio.run(call())


def samples(text):
    """By name and labels."""
    return {
        (sample.name, *sorted(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def passed(since, seconds):
    """Since it was `seconds` ago."""
    return (timezone.now() - since).total_seconds() - seconds


def of_cluster(metrics=None):
    return samples(Exposition("beat", [metrics or ClusterMetrics()]).text().decode())


def test_whoever_has_the_token_reads_it_by_address_and_without_tls():
    answer = ask()
    assert answer.status_code == 200
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    found = samples(answer.text)
    assert found["tessera_held_calls",] == 0
    assert found["tessera_build_info", ("role", "web"), ("version", "0.1.0")] == 1
    assert any(name == "process_resident_memory_bytes" for name, *_ in found)


@pytest.mark.parametrize(
    ("token", "scheme"),
    [
        *((None, ""), ("", "Bearer"), ("t" * 40, "Bearer"), ("\xe9" * 40, "Bearer")),
        *((TOKEN[:-1], "Bearer"), (TOKEN, "Basic")),
    ],
)
def test_nobody_else_does(token, scheme):
    answer = ask(token, scheme=scheme)
    assert (answer.status_code, answer.text) == (401, "")


def test_without_a_token_in_the_settings_there_is_no_such_page(settings):
    settings.PLATFORM = replace(settings.PLATFORM, metrics_token="")
    assert [ask(token).status_code for token in (None, "", TOKEN)] == [404, 404, 404]
    assert Platform().metrics_token == "" == Platform().metrics_listen
    assert TOKEN not in repr(replace(settings.PLATFORM, metrics_token=TOKEN))


def test_it_is_read_and_not_written():
    assert ask(method="HEAD").text == ""
    assert ask(method="POST").status_code == 405


def test_requests_are_counted_by_the_name_of_their_route():
    client = Client(headers={"host": "gpu.example.org"})
    client.force_login(a_user("olga"))
    before = samples(ask().text)
    for path in ("/jobs/J-987654321/", "/no/such/page/8d1f", "/static/none.css"):
        client.get(path, secure=True)
    client.generic("BREW", "/jobs/", secure=True)
    answer = ask().text
    after = samples(answer)
    new = {key for key in after if after[key] != before.get(key, 0)}
    assert {dict(key[1:])["route"] for key in new if key[0] == "tessera_request_seconds_count"} == {
        "web:job",
        "unknown",
        "static",
        "web:jobs",
    }
    assert {dict(key[1:])["method"] for key in new if "seconds_count" in key[0]} == {"GET", "other"}
    for part in ("987654321", "8d1f", "BREW", "none.css", "olga"):
        assert part not in answer


def test_the_cluster_is_counted_in_few_statements(django_assert_max_num_queries):
    user = a_user("olga")
    home = a_project("vision", user)
    waiting, running = a_job(user, home), a_job(user, home)
    node, other = a_node("node-a").row, a_node("node-b").row
    Node.objects.filter(pk=node.pk).update(status=NodeStatus.UNREACHABLE)
    Node.objects.filter(pk=other.pk).update(holding_since=timezone.now(), schedulable=False)
    since = timezone.now() - timedelta(seconds=90)
    Job.objects.filter(pk=waiting.pk).update(
        status=JobStatus.QUEUED, queued_at=since, reason={"code": "resources"}
    )
    Job.objects.filter(pk=running.pk).update(status=JobStatus.RUNNING, reason=None)
    planned_at = timezone.now() - timedelta(seconds=40)
    TaskLease.objects.update_or_create(name="plan", defaults={"stamped_at": planned_at})
    TaskLease.objects.create(name="site:elsewhere", stamped_at=timezone.now())
    with django_assert_max_num_queries(8):
        counts.cluster_counts()
    found = of_cluster()
    assert found["tessera_database_up",] == 1
    assert found["tessera_jobs", ("status", "queued")] == 1
    assert found["tessera_jobs", ("status", "running")] == 1
    assert found["tessera_jobs", ("status", "placed")] == 0
    assert found["tessera_waiting_jobs", ("reason", "resources")] == 1
    assert found["tessera_waiting_jobs", ("reason", "priority")] == 0
    assert 90 <= found["tessera_oldest_queued_seconds",] <= 90 + passed(since, seconds=90)
    plan_age = found["tessera_round_age_seconds", ("work", "plan")]
    assert 40 <= plan_age <= 40 + passed(planned_at, seconds=40)
    assert found["tessera_round_age_seconds", ("work", "sweep")] == float("inf")
    assert found["tessera_nodes", ("status", "unreachable")] == 1
    assert found["tessera_nodes_holding",] == found["tessera_nodes_cordoned",] == 1
    assert found["tessera_node_trouble", ("node", "node-a"), ("trouble", "silent")] == 1
    assert found["tessera_node_trouble", ("node", "node-b"), ("trouble", "holding")] == 1
    assert found["tessera_queue_messages", ("queue", "celery.plan")] == 0
    assert "elsewhere" not in str(sorted(found))


def test_a_reason_that_this_version_does_not_know_is_no_name():
    user = a_user("olga")
    job = a_job(user, a_project("vision", user))
    Job.objects.filter(pk=job.pk).update(status=JobStatus.QUEUED, reason={"code": "x" * 50})
    assert of_cluster()["tessera_waiting_jobs", ("reason", "none")] == 1


def test_however_many_scrape_the_database_is_read_once(monkeypatch):
    reads, now = [], SimpleNamespace(seconds=0.0)
    read = cluster.cluster_counts
    monkeypatch.setattr(cluster, "cluster_counts", lambda: (reads.append(1), read())[1])
    metrics = ClusterMetrics(clock=lambda: now.seconds)
    for _ in range(5):
        of_cluster(metrics)
    assert len(reads) == 1
    now.seconds += cluster.KEPT_SECONDS
    of_cluster(metrics)
    assert len(reads) == 2


def test_a_database_that_is_away_is_said_and_nothing_old_is_served(monkeypatch):
    now = SimpleNamespace(seconds=0.0)
    metrics = ClusterMetrics(clock=lambda: now.seconds)
    assert of_cluster(metrics)["tessera_database_up",] == 1

    def refused():
        raise OperationalError("connection refused")

    monkeypatch.setattr(cluster, "cluster_counts", refused)
    now.seconds += cluster.KEPT_SECONDS
    found = of_cluster(metrics)
    assert found["tessera_database_up",] == 0
    assert not any(name == "tessera_jobs" for name, *_ in found)
    assert found["tessera_broker_up",] == 1


def test_a_broker_that_is_away_is_said(monkeypatch):
    def away():
        raise counts.BrokerAway("connection refused")

    monkeypatch.setattr(cluster, "queue_lengths", away)
    found = of_cluster()
    assert (found["tessera_broker_up",], found["tessera_database_up",]) == (0, 1)
    assert not any(name == "tessera_queue_messages" for name, *_ in found)


def test_a_database_that_hangs_holds_up_no_scrape(monkeypatch):
    goes_on = Event()
    monkeypatch.setattr(cluster, "cluster_counts", lambda: goes_on.wait() and None)
    monkeypatch.setattr(cluster, "WAIT_SECONDS", 0.05)
    try:
        assert of_cluster()["tessera_database_up",] == 0
    finally:
        goes_on.set()
