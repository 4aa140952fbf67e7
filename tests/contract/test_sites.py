"""What every site keeps, held to Tessera's own nodes and to a cluster in memory."""

from collections.abc import Iterator
from datetime import timedelta

import pytest
from django.utils import timezone

from portal.accounts.models import Project, User
from portal.allocations.models import Allocation
from portal.allocations.selectors import usage_of
from portal.audit.models import Event
from portal.jobs.models import Attempt, Job, Replica
from portal.jobs.services import job_cancel
from portal.quotas.models import Quota
from portal.sites.observations import Observation
from scheduler.core.model.states import AllocationStatus, JobStatus, ReplicaStatus
from scheduler.sites.registry import unregister
from scheduler.sweeper import sweep
from tests.support.rows import a_project, a_user
from tests.support.sites import (
    ClusterUnderTest,
    OwnNodesUnderTest,
    SiteUnderTest,
    a_gang,
    a_stranger,
    observation_of,
    silence_codes,
    status_of,
    used_units,
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
    assert silence_codes(job) == ["site_silent"], "once, however often it is asked"
    site.mend()
    assert status_of(job) == JobStatus.RUNNING
    assert Attempt.objects.get().silent_since is None
    assert silence_codes(job) == ["site_silent", "site_answers"]
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
    early = [observation_of(r, ReplicaStatus.PREPARING) for r in mine]
    running = [observation_of(r, ReplicaStatus.RUNNING) for r in mine]
    before = Event.objects.count()
    assert site.deliver([*running, *early, *running]).jobs == set()
    assert Event.objects.count() == before
    site.finish()
    site.settle()
    assert site.deliver([*early, *running]).jobs == set()
    assert status_of(job) == JobStatus.SUCCEEDED
    assert (used_units(), releases()) == (0, 2)


def test_an_earlier_attempt_says_nothing_about_a_later_one(site, alice, vision):
    job = a_gang(alice, vision)
    site.begin(job)
    site.settle()
    mine = _of_the_site(site, job)
    stale = [observation_of(r, ReplicaStatus.FAILED, fence=r.attempt.fence - 1) for r in mine]
    result = site.deliver(stale)
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
        observation_of(elsewhere, ReplicaStatus.FAILED),
        Observation(a_stranger(), 1, ReplicaStatus.RUNNING),
    ]
    result = site.deliver(nonsense)
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
        assert site.site.release() is False
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


def _of_the_site(site: SiteUnderTest, job: Job) -> list[Replica]:
    """The replicas that the site, or its first node, may speak about."""
    rows = Replica.objects.filter(attempt__job=job).select_related("attempt")
    if isinstance(site, OwnNodesUnderTest):
        rows = rows.filter(node=site.nodes[0].row)
    found = list(rows)
    assert found
    return found


def _by_replica(observations: list[Observation]) -> list[Observation]:
    return sorted(observations, key=lambda observation: observation.replica)
