"""What every site keeps, held to Tessera's own nodes and to a cluster in memory."""

from collections.abc import Iterator
from copy import copy
from datetime import timedelta

import pytest
from django.db import transaction
from django.utils import timezone

from agents.contract.message import Message
from portal.accounts.models import Project, User
from portal.allocations.models import Allocation
from portal.allocations.selectors import usage_of
from portal.audit.models import Event
from portal.audit.transitions import advance
from portal.inventory.models import Node
from portal.jobs.lifecycle import job_stop
from portal.jobs.models import Attempt, Job, Replica, StopReason
from portal.jobs.services import job_cancel
from portal.leases.models import TaskLease
from portal.leases.services import run_exclusively
from portal.quotas.models import Quota
from portal.sites import silence
from portal.sites.observations import Observation
from scheduler.core.model.states import (
    AllocationStatus,
    JobStatus,
    NodeStatus,
    ReplicaStatus,
)
from scheduler.sites import own_nodes
from scheduler.sites.base import SiteCapabilities, SiteUnreachableError
from scheduler.sites.reconcile import site_lease, sites_observe
from scheduler.sites.registry import register, unregister
from scheduler.sites.remote import RemoteSite
from scheduler.sweeper import sweep
from tests.support.rows import a_job, a_node, a_project, a_user
from tests.support.sites import (
    ClusterInMemory,
    ClusterUnderTest,
    OwnNodesUnderTest,
    SiteUnderTest,
    a_stranger,
)

pytestmark = pytest.mark.django_db

GPU = 56_000
ON_THE_WAY = ["placed", "preparing", "running"]


@pytest.fixture(params=[OwnNodesUnderTest, ClusterUnderTest], ids=["own nodes", "fake cluster"])
def site(request: pytest.FixtureRequest) -> Iterator[SiteUnderTest]:
    under_test = request.param()
    yield under_test
    unregister(under_test.site.name)


@pytest.fixture
def alice() -> User:
    return a_user("alice")


@pytest.fixture
def vision(alice: User) -> Project:
    return a_project("vision", alice)


def a_gang(alice: User, vision: Project, **fields) -> Job:
    """Two replicas with a whole GPU each."""
    return a_job(alice, vision, **({"device": {"gpus": 1}, "replicas": 2} | fields))


def status_of(job: Job) -> str:
    return Job.objects.values_list("status", flat=True).get(pk=job.pk)


def used_units() -> int:
    return Quota.objects.get().used_units


def history(job: Job) -> list[str]:
    """The statuses that the job went through."""
    rows = Event.objects.filter(noun="job", noun_id=str(job.pk)).exclude(new="")
    return list(rows.values_list("new", flat=True))


def releases() -> int:
    return Event.objects.filter(noun="allocation", new=AllocationStatus.RELEASED).count()


def test_it_offers_boards_and_takes_what_it_offers(site, alice, vision):
    offered = site.site.capabilities()
    assert offered.boards == {"H200-141GB"}
    job = a_gang(alice, vision)
    assert site.begin(job)
    attempt = Attempt.objects.get()
    assert attempt.site == site.site.name
    assert status_of(job) == JobStatus.PLACED
    assert used_units() == 2 * GPU
    assert not site.begin(job), "a job that is placed is not placed again"
    assert Attempt.objects.count() == 1


def test_a_job_beyond_its_quota_is_not_begun_and_nothing_is_written(site, alice, vision):
    job = a_gang(alice, vision)
    site.choose(job)
    Quota.objects.update(limit_units=GPU, guard_units=GPU)
    assert not site.begin(job)
    assert status_of(job) == JobStatus.QUEUED
    assert used_units() == 0
    assert not Attempt.objects.exists()
    assert not Allocation.objects.exists()


def test_a_job_that_was_held_meanwhile_is_not_begun(site, alice, vision):
    job = a_gang(alice, vision)
    site.choose(job)
    Job.objects.filter(pk=job.pk).update(hold_owner="alice", hold_reason="not yet")
    assert not site.begin(job)
    assert status_of(job) == JobStatus.QUEUED


@pytest.mark.parametrize(
    ("exit_code", "end"), [(0, JobStatus.SUCCEEDED), (3, JobStatus.FAILED)], ids=["0", "3"]
)
def test_from_submit_to_its_end(site, alice, vision, exit_code, end):
    job = a_gang(alice, vision)
    site.begin(job)
    site.prepare()
    assert status_of(job) == JobStatus.PREPARING
    site.settle()
    assert status_of(job) == JobStatus.RUNNING
    assert {r.status for r in Replica.objects.all()} == {ReplicaStatus.RUNNING}
    site.finish(exit_code)
    site.settle()
    assert status_of(job) == end
    assert [status for status in history(job) if status in ON_THE_WAY] == ON_THE_WAY
    assert set(Replica.objects.values_list("exit_code", flat=True)) == {exit_code}
    assert used_units() == 0
    assert releases() == 2
    assert site.left() == set()


def test_its_time_counts_while_it_runs(site, alice, vision):
    job = a_gang(alice, vision)
    site.begin(job)
    site.settle()
    hour_ago = timezone.now() - timedelta(hours=1)
    Allocation.objects.update(reserved_at=hour_ago, bound_at=hour_ago)
    site.finish()
    site.settle()
    seconds = usage_of([job])[job.pk] / GPU
    assert 2 * 3_600 <= seconds < 2 * 3_600 + 120


def test_cancelled_before_the_site_heard_of_it(site, alice, vision):
    job = a_gang(alice, vision)
    site.begin(job)
    job_cancel(job=job, actor="alice")
    assert status_of(job) == JobStatus.CANCELLED
    site.settle()
    assert site.left() == set()
    assert used_units() == 0
    assert releases() == 2


def test_cancelled_while_it_is_prepared(site, alice, vision):
    job = a_gang(alice, vision)
    site.begin(job)
    site.prepare()
    job_cancel(job=job, actor="alice")
    site.settle()
    assert status_of(job) == JobStatus.CANCELLED
    assert site.left() == set()
    assert (used_units(), releases()) == (0, 2)


def test_cancelled_while_it_runs(site, alice, vision):
    job = a_gang(alice, vision)
    site.begin(job)
    site.settle()
    job_cancel(job=job, actor="alice")
    assert status_of(job) == JobStatus.STOPPING
    assert used_units() == 2 * GPU, "it has its devices until nothing of it is left"
    site.settle()
    assert status_of(job) == JobStatus.CANCELLED
    assert set(Replica.objects.values_list("exit_code", flat=True)) == {143}
    assert (used_units(), releases()) == (0, 2)


def test_the_time_limit_ends_it(site, alice, vision):
    job = a_gang(alice, vision, time_limit="1m")
    site.begin(job)
    site.settle()
    Job.objects.filter(pk=job.pk).update(deadline_at=timezone.now() - timedelta(seconds=1))
    sweep()
    site.settle()
    assert status_of(job) == JobStatus.TIMED_OUT
    assert (used_units(), releases()) == (0, 2)


def test_a_lost_attempt_costs_an_infrastructure_retry(site, alice, vision):
    job = a_gang(alice, vision, retries={"infrastructure": 1})
    site.begin(job)
    site.settle()
    site.lose()
    job.refresh_from_db()
    assert job.status in (JobStatus.QUEUED, JobStatus.PLACED)
    assert job.infrastructure_retries_left == 0
    first = Attempt.objects.order_by("number")[0]
    assert first.outcome == "lost"
    assert first.ended_at is not None


def test_a_lost_attempt_without_a_retry_fails(site, alice, vision):
    job = a_gang(alice, vision)
    Job.objects.filter(pk=job.pk).update(infrastructure_retries_left=0)
    site.begin(job)
    site.settle()
    site.lose()
    job.refresh_from_db()
    assert (job.status, job.stop_reason) == (JobStatus.FAILED, "lost")


def test_a_silent_site_changes_no_job_and_the_job_says_so(site, alice, vision):
    job = a_gang(alice, vision)
    site.begin(job)
    site.settle()
    site.cut()
    sweep()
    assert status_of(job) == JobStatus.RUNNING
    assert Attempt.objects.get().silent_since is not None
    assert _codes(job) == ["site_silent"], "once, however often it is asked"
    site.mend()
    assert status_of(job) == JobStatus.RUNNING
    assert Attempt.objects.get().silent_since is None
    assert _codes(job) == ["site_silent", "site_answers"]
    site.finish()
    site.settle()
    assert status_of(job) == JobStatus.SUCCEEDED


def test_what_is_cancelled_at_a_silent_site_stops_when_it_answers(site, alice, vision):
    job = a_gang(alice, vision)
    site.begin(job)
    site.settle()
    site.cut()
    job_cancel(job=job, actor="alice")
    sweep()
    assert status_of(job) == JobStatus.STOPPING
    assert used_units() == 2 * GPU, "it may still run there"
    site.mend()
    site.settle()
    assert status_of(job) == JobStatus.CANCELLED
    assert used_units() == 0


def test_late_repeated_and_disordered_observations_change_nothing(site, alice, vision):
    job = a_gang(alice, vision)
    site.begin(job)
    site.settle()
    mine = _of_the_site(site, job)
    early = [_seen(r, ReplicaStatus.PREPARING) for r in mine]
    running = [_seen(r, ReplicaStatus.RUNNING) for r in mine]
    before = Event.objects.count()
    assert site.say([*running, *early, *running]).jobs == set()
    assert Event.objects.count() == before
    site.finish()
    site.settle()
    assert site.say([*early, *running]).jobs == set()
    assert status_of(job) == JobStatus.SUCCEEDED
    assert (used_units(), releases()) == (0, 2)


def test_an_earlier_attempt_says_nothing_about_a_later_one(site, alice, vision):
    job = a_gang(alice, vision)
    site.begin(job)
    site.settle()
    mine = _of_the_site(site, job)
    stale = [_seen(r, ReplicaStatus.FAILED, fence=r.attempt.fence - 1) for r in mine]
    result = site.say(stale)
    assert result.jobs == set()
    assert _by_replica(result.refused) == _by_replica(stale)
    assert status_of(job) == JobStatus.RUNNING


def test_a_site_speaks_about_its_own_attempts_alone(site, alice, vision):
    job = a_gang(alice, vision)
    site.begin(job)
    site.settle()
    elsewhere = Replica.objects.create(
        attempt=Attempt.objects.create(
            job=job, number=99, site="elsewhere", created_at=timezone.now()
        ),
        rank=0,
    )
    nonsense = [
        _seen(elsewhere, ReplicaStatus.FAILED),
        Observation(a_stranger(), 1, ReplicaStatus.RUNNING),
    ]
    result = site.say(nonsense)
    assert result.jobs == set()
    assert _by_replica(result.refused) == _by_replica(nonsense)
    elsewhere.refresh_from_db()
    assert elsewhere.status == ReplicaStatus.PENDING


def test_devices_are_released_once_and_units_returned_once(site, alice, vision):
    job = a_gang(alice, vision)
    site.begin(job)
    site.settle()
    site.finish()
    for _ in range(3):
        site.settle()
        sweep()
        assert site.site.release() == 0
    assert (used_units(), releases()) == (0, 2)


def test_driving_twice_starts_nothing_twice(site, alice, vision):
    job = a_gang(alice, vision)
    site.begin(job)
    attempts = list(Attempt.objects.values_list("pk", flat=True))
    for _ in range(3):
        site.site.drive(attempts)
    site.settle()
    assert len(site.left()) == 2
    assert status_of(job) == JobStatus.RUNNING


def test_a_sweep_reads_open_attempts_alone_however_long_the_history_is():
    for rows in (
        Attempt.objects.open().filter(site="own-nodes"),
        Attempt.objects.open().exclude(site__in=["own-nodes"]).order_by(),
    ):
        assert "attempt_open" in rows.explain()


@pytest.fixture
def cluster() -> Iterator[ClusterUnderTest]:
    under_test = ClusterUnderTest()
    yield under_test
    unregister(under_test.site.name)


@pytest.mark.django_db(transaction=True)
def test_a_change_rings_the_site_without_a_sweep(cluster, alice, vision):
    job = a_gang(alice, vision)
    cluster.begin(job)
    assert cluster.cluster.submissions, "the bell of the commit"
    cluster.cluster.step(ReplicaStatus.PENDING, ReplicaStatus.RUNNING)
    sweep()
    assert status_of(job) == JobStatus.RUNNING
    job_cancel(job=job, actor="alice")
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
def test_a_cluster_takes_only_what_it_offers(cluster, alice, vision, fields):
    a_node("with-all", gpus=8)
    a_node("another", gpus=2, board="A100-80GB")
    job = a_gang(alice, vision, **fields)
    assert not cluster.begin(job)
    assert (status_of(job), used_units()) == (JobStatus.QUEUED, 0)


def test_a_job_that_ended_by_itself_before_it_made_way_has_succeeded(cluster, alice, vision):
    job = a_gang(alice, vision, preemptible=True)
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


def test_a_site_that_is_no_longer_configured_leaves_its_jobs_as_they_are(cluster, alice, vision):
    job = a_gang(alice, vision)
    cluster.begin(job)
    cluster.settle()
    unregister(cluster.site.name)
    sweep()
    assert status_of(job) == JobStatus.RUNNING
    assert _codes(job) == ["site_silent"]


def test_a_site_that_fails_does_not_stop_the_others(cluster, alice, vision, monkeypatch):
    own = OwnNodesUnderTest()
    mine = a_job(alice, vision, device={"gpus": 1})
    own.begin(mine)
    own.settle()
    monkeypatch.setattr(cluster.cluster, "report", lambda: 1 / 0)
    own.lose()
    assert status_of(mine) in (JobStatus.FAILED, JobStatus.QUEUED)


def test_an_order_that_fails_does_not_keep_others_from_theirs(cluster, alice, vision, monkeypatch):
    """The attempt of the first job; the second one is cancelled."""
    first, second = a_gang(alice, vision), a_gang(alice, vision)
    cluster.begin(first)
    cluster.begin(second)
    cluster.settle()
    submit, bad = cluster.cluster.submit, Attempt.objects.get(job=first).fence

    def refuses_one(order):
        if order.fence == bad:
            raise ValueError("no such partition")
        submit(order)

    monkeypatch.setattr(cluster.cluster, "submit", refuses_one)
    job_cancel(job=second, actor="alice")
    cluster.settle()
    assert status_of(second) == JobStatus.CANCELLED


def test_what_another_round_learned_meanwhile_is_not_lost(cluster, alice, vision, monkeypatch):
    """The report was made before the cluster took the job, and arrives afterwards."""
    job = a_gang(alice, vision)
    cluster.begin(job)
    replicas = list(Replica.objects.all())

    def report():
        cluster.say([_seen(replica, ReplicaStatus.PREPARING) for replica in replicas])
        return []

    monkeypatch.setattr(cluster.cluster, "report", report)
    sites_observe(timezone.now())
    assert status_of(job) != JobStatus.FAILED
    assert {r.status for r in Replica.objects.all()} == {ReplicaStatus.PREPARING}


def test_a_site_that_takes_no_orders_does_not_fill_the_history(cluster, alice, vision, monkeypatch):
    """It reports, so it is not silent; the orders stand, and are given again."""
    job = a_gang(alice, vision)
    cluster.begin(job)
    cluster.settle()

    def refuse(order):
        raise SiteUnreachableError("not now")

    with monkeypatch.context() as broken:
        broken.setattr(cluster.cluster, "submit", refuse)
        broken.setattr(cluster.cluster, "cancel", refuse)
        job_cancel(job=job, actor="alice")
        for _ in range(3):
            sweep()
    assert status_of(job) == JobStatus.STOPPING
    assert _codes(job) == []
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


def test_two_rounds_with_a_site_do_not_overlap(cluster, alice, vision):
    """The sweep leaves a site to the round in progress, and has it do another one."""
    job = a_gang(alice, vision)
    cluster.begin(job)
    overlapping = []

    def sweeping():
        before = len(cluster.cluster.submissions)
        sweep()
        overlapping.append(len(cluster.cluster.submissions) - before)

    run_exclusively(name=site_lease(cluster.site.name), work=sweeping, rounds=1)
    assert overlapping == [0]
    assert TaskLease.objects.get(name=site_lease(cluster.site.name)).rung
    sweep()
    assert cluster.cluster.submissions


def test_two_workers_note_the_same_silence_once(cluster, alice, vision, monkeypatch):
    job = a_gang(alice, vision)
    cluster.begin(job)
    attempt, note = Attempt.objects.get(), silence._note

    def twice(row, place, at):
        """Another worker had read the row before this one wrote it."""
        note(copy(row), place, at)
        note(row, place, at)

    monkeypatch.setattr(silence, "_note", twice)
    for silent in ({attempt.pk: "here"}, {}):
        silence.silence_note(site=cluster.site.name, silent=silent, at=timezone.now())
    assert _codes(job) == ["site_silent", "site_answers"]


@pytest.mark.parametrize("name", ["", "Capital", "a" * 25, "with space", "../x"])
def test_a_name_that_is_none_is_refused(name):
    offer = SiteCapabilities(frozenset(), frozenset(), 1)
    with pytest.raises(ValueError, match="at most 24"):
        register(RemoteSite(name, ClusterInMemory(), offer))


def test_two_sites_have_two_names(cluster):
    with pytest.raises(ValueError, match="already"):
        register(RemoteSite("fake-cluster", ClusterInMemory(), cluster.site.capabilities()))


def _of_the_site(site: SiteUnderTest, job: Job) -> list[Replica]:
    """The replicas that the site, or its first node, may speak about."""
    rows = Replica.objects.filter(attempt__job=job).select_related("attempt")
    if isinstance(site, OwnNodesUnderTest):
        rows = rows.filter(node=site.nodes[0].row)
    found = list(rows)
    assert found
    return found


def _seen(replica: Replica, status: ReplicaStatus, *, fence: int | None = None) -> Observation:
    return Observation(replica.pk, replica.attempt.fence if fence is None else fence, status)


def _by_replica(observations: list[Observation]) -> list[Observation]:
    return sorted(observations, key=lambda observation: observation.replica)


def _codes(job: Job) -> list[str]:
    rows = Event.objects.filter(job=job, code__startswith="site_").order_by("id")
    return list(rows.values_list("code", flat=True))
