"""Rounds with sites: bells, silence, orders that fail, and what a cluster takes.

What every site keeps is in `tests/contract/test_sites.py`.
"""

from collections.abc import Iterator
from copy import copy

import pytest
from django.db import transaction
from django.utils import timezone

from agents.contract.message import Message
from portal.arrays.models import JobArray
from portal.audit.transitions import advance
from portal.inventory.models import Node
from portal.jobs.lifecycle import job_stop
from portal.jobs.models import Attempt, Job, Replica, StopReason
from portal.jobs.services import job_cancel
from portal.leases.services import run_exclusively
from portal.sites import silence
from scheduler.core.model.states import JobStatus, NodeStatus, ReplicaStatus
from scheduler.sites import own_nodes
from scheduler.sites.base import SiteCapabilities, SiteUnreachableError
from scheduler.sites.reconcile import site_lease, sites_observe
from scheduler.sites.registry import register, unregister
from scheduler.sites.remote import RemoteSite
from scheduler.sweeper import sweep
from tests.support.rows import a_job, a_node
from tests.support.sites import (
    ClusterInMemory,
    ClusterUnderTest,
    OwnNodesUnderTest,
    a_gang,
    observation_of,
    silence_codes,
    status_of,
    used_units,
)

pytestmark = pytest.mark.django_db


@pytest.fixture
def cluster() -> Iterator[ClusterUnderTest]:
    under_test = ClusterUnderTest()
    yield under_test
    unregister(under_test.site.name)


def test_a_sweep_reads_open_attempts_alone_however_long_the_history_is():
    for rows in (
        Attempt.objects.open().filter(site="own-nodes"),
        Attempt.objects.open().exclude(site__in=["own-nodes"]).order_by(),
    ):
        assert "attempt_open" in rows.explain()


@pytest.mark.django_db(transaction=True)
def test_a_change_rings_the_site_without_a_sweep(cluster, olga, team):
    job = a_gang(olga, team)
    cluster.begin(job)
    assert cluster.cluster.submissions, "the bell of the commit"
    cluster.cluster.step(ReplicaStatus.PENDING, ReplicaStatus.RUNNING)
    sweep()
    assert status_of(job) == JobStatus.RUNNING
    job_cancel(job=job, actor="olga")
    assert {o.status for o in cluster.cluster.seen.values()} == {ReplicaStatus.EXITED}
    sweep()
    assert status_of(job) == JobStatus.CANCELLED


@pytest.mark.parametrize(
    "fields",
    [
        {"device": {"mig": "2g.35gb"}, "replicas": 1},
        {"device": {"gpus": 1, "models": ["A100"]}},
        {"replicas": 5},
    ],
    ids=["a slice", "another board", "too many replicas"],
)
def test_a_cluster_takes_only_what_it_offers(cluster, olga, team, fields):
    a_node("with-all", gpus=8)
    a_node("another", gpus=2, board="A100-80GB")
    job = a_gang(olga, team, **fields)
    assert not cluster.begin(job)
    assert (status_of(job), used_units()) == (JobStatus.QUEUED, 0)


def test_a_cluster_takes_no_member_beyond_the_cap_of_its_array(cluster, olga, team):
    fields = {"project": team, "owner": olga, "name": "two", "request": {}, "size": 2}
    array = JobArray.objects.create(max_running=1, **fields)
    first, second = a_gang(olga, team), a_gang(olga, team)
    for index, job in enumerate((first, second)):
        Job.objects.filter(pk=job.pk).update(array=array, array_index=index, array_cap=1)
    assert cluster.begin(first)
    assert not cluster.begin(second)
    assert status_of(second) == JobStatus.QUEUED


def test_a_job_that_ended_by_itself_before_it_made_way_has_succeeded(cluster, olga, team):
    job = a_gang(olga, team, preemptible=True)
    cluster.begin(job)
    cluster.settle()
    cluster.cluster.step(ReplicaStatus.RUNNING, ReplicaStatus.EXITED, exit_code=0)
    with transaction.atomic():
        (row,) = Job.objects.filter(pk=job.pk).lock_rows()
        job_stop(
            job=row,
            stop_reason=StopReason.PREEMPTED,
            message=Message("stopped for a job of higher priority"),
        )
    cluster.settle()
    assert status_of(job) == JobStatus.SUCCEEDED


def test_a_site_that_is_no_longer_configured_leaves_its_jobs_as_they_are(cluster, olga, team):
    job = a_gang(olga, team)
    cluster.begin(job)
    cluster.settle()
    unregister(cluster.site.name)
    sweep()
    assert status_of(job) == JobStatus.RUNNING
    assert silence_codes(job) == ["site_silent"]


def test_a_site_that_fails_does_not_stop_the_others(cluster, olga, team, monkeypatch):
    own = OwnNodesUnderTest()
    mine = a_job(olga, team, device={"gpus": 1})
    own.begin(mine)
    own.settle()
    monkeypatch.setattr(cluster.cluster, "report", lambda: 1 / 0)
    own.lose()
    assert status_of(mine) in (JobStatus.FAILED, JobStatus.QUEUED)


def test_an_order_that_fails_does_not_keep_others_from_theirs(cluster, olga, team, monkeypatch):
    """The attempt of the first job; the second one is cancelled."""
    first, second = a_gang(olga, team), a_gang(olga, team)
    cluster.begin(first)
    cluster.begin(second)
    cluster.settle()
    submit, bad = cluster.cluster.submit, Attempt.objects.get(job=first).fence

    def refuses_one(order):
        if order.fence == bad:
            raise ValueError("no such partition")
        submit(order)

    monkeypatch.setattr(cluster.cluster, "submit", refuses_one)
    job_cancel(job=second, actor="olga")
    cluster.settle()
    assert status_of(second) == JobStatus.CANCELLED


def test_what_another_round_learned_meanwhile_is_not_lost(cluster, olga, team, monkeypatch):
    """The report was made before the cluster took the job, and arrives afterwards."""
    job = a_gang(olga, team)
    cluster.begin(job)
    replicas = list(Replica.objects.all())

    def report():
        cluster.deliver([observation_of(replica, ReplicaStatus.PREPARING) for replica in replicas])
        return []

    monkeypatch.setattr(cluster.cluster, "report", report)
    sites_observe(timezone.now())
    assert status_of(job) != JobStatus.FAILED
    assert {r.status for r in Replica.objects.all()} == {ReplicaStatus.PREPARING}


def test_a_site_that_takes_no_orders_does_not_fill_the_history(cluster, olga, team, monkeypatch):
    """It reports, so it is not silent; the orders stand, and are given again."""
    job = a_gang(olga, team)
    cluster.begin(job)
    cluster.settle()

    def refuse(order):
        raise SiteUnreachableError("not now")

    with monkeypatch.context() as broken:
        broken.setattr(cluster.cluster, "submit", refuse)
        broken.setattr(cluster.cluster, "cancel", refuse)
        job_cancel(job=job, actor="olga")
        for _ in range(3):
            sweep()
    assert status_of(job) == JobStatus.STOPPING
    assert silence_codes(job) == []
    cluster.settle()
    assert status_of(job) == JobStatus.CANCELLED


@pytest.mark.django_db(transaction=True)
def test_a_node_that_reports_while_it_is_judged_does_not_keep_others_from_it(monkeypatch):
    site = OwnNodesUnderTest()

    def advance_late(row, *arguments, **columns):
        if row.name == "first":
            Node.objects.filter(pk=row.pk).update(status=NodeStatus.RETIRED)
        return advance(row, *arguments, **columns)

    monkeypatch.setattr(own_nodes, "advance", advance_late)
    site.cut()
    status = dict(Node.objects.values_list("name", "status"))
    assert status == {"first": NodeStatus.RETIRED, "second": NodeStatus.UNREACHABLE}


def test_two_rounds_with_a_site_do_not_overlap(cluster, olga, team):
    """The sweep leaves a site to the round in progress, and has it do another one."""
    job = a_gang(olga, team)
    cluster.begin(job)
    overlapping = []

    def sweeping():
        before = len(cluster.cluster.submissions)
        sweep()
        overlapping.append(len(cluster.cluster.submissions) - before)

    rings = []
    name = site_lease(cluster.site.name)
    run_exclusively(name=name, work=sweeping, rounds=1, ring_again=lambda: rings.append(1))
    assert (overlapping, rings) == ([0], [1])
    sweep()
    assert cluster.cluster.submissions


def test_two_workers_note_the_same_silence_once(cluster, olga, team, monkeypatch):
    job = a_gang(olga, team)
    cluster.begin(job)
    attempt, note = Attempt.objects.get(), silence._note

    def twice(row, place, at):
        """Another worker had read the row before this one wrote it."""
        note(copy(row), place, at)
        note(row, place, at)

    monkeypatch.setattr(silence, "_note", twice)
    for silent in ({attempt.pk: "here"}, {}):
        silence.silence_note(site=cluster.site.name, silent=silent, at=timezone.now())
    assert silence_codes(job) == ["site_silent", "site_answers"]


@pytest.mark.parametrize("name", ["", "Capital", "a" * 25, "with space", "../x"])
def test_a_name_that_is_none_is_refused(name):
    offer = SiteCapabilities(frozenset(), frozenset(), 1)
    with pytest.raises(ValueError, match="at most 24"):
        register(RemoteSite(name, ClusterInMemory(), offer))


def test_two_sites_have_two_names(cluster):
    with pytest.raises(ValueError, match="already"):
        register(RemoteSite("fake-cluster", ClusterInMemory(), cluster.site.capabilities()))
