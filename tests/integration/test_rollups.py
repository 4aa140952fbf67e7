"""A job follows its replicas. The sweep rolls up those alone that are behind, so what it costs does
not grow with the jobs that run."""

from itertools import product
from types import SimpleNamespace

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from portal.jobs import lifecycle
from portal.jobs.models import Attempt, DesiredState, Job, Replica
from portal.jobs.rollups import is_behind, jobs_behind_replicas
from scheduler import sweeper
from scheduler.core.model.states import JOB_ALLOCATED, JobStatus, ReplicaStatus
from tests.support.rows import a_job, a_node, a_project, a_user, settle

ENDS = [(status, None) for status in ReplicaStatus if status != ReplicaStatus.EXITED]
ENDS += [(ReplicaStatus.EXITED, code) for code in (0, 1)]
WISHES = (DesiredState.PREPARE, DesiredState.RUN, DesiredState.GONE)
KINDS = list(product(ENDS, WISHES, ("sha256:a", "sha256:b")))


@pytest.mark.parametrize("preflight", [None, {}], ids=["job", "check"])
def test_a_rollup_of_a_job_that_is_not_behind_would_do_nothing(preflight, monkeypatch):
    """Every status of a job, with every pair of replicas."""
    rung = []
    monkeypatch.setattr(lifecycle, "is_behind", lambda job, replicas: True)
    monkeypatch.setattr(lifecycle, "ring_replicas", rung.extend)
    attempt, looked_at = Attempt(preflight=preflight), 0
    for status, *kinds in product(JOB_ALLOCATED, KINDS, KINDS):
        job = SimpleNamespace(pk=1, status=status)
        replicas = [
            SimpleNamespace(
                rank=rank,
                status=end,
                exit_code=code,
                desired_state=wish,
                image_digest=digest,
                attempt=attempt,
            )
            for rank, ((end, code), wish, digest) in enumerate(kinds)
        ]
        if is_behind(job, replicas):
            continue
        looked_at += 1
        gathered = SimpleNamespace(advance=pytest.fail, set_columns=pytest.fail)
        lifecycle._roll(job, attempt, replicas, gathered)
        assert not rung, (status, kinds)
    assert looked_at > 1_000


@pytest.mark.django_db
def test_a_sweep_asks_the_same_of_many_running_jobs_as_of_one(monkeypatch):
    monkeypatch.setattr("scheduler.sites.own_nodes.nodes_in_turn", set)
    alice, node = a_user(), a_node(gpus=6)
    project = a_project("", alice)
    asked = []
    for _ in range(2):
        for _ in range(len(asked) * 4 + 1):
            a_job(alice, project, device={"gpus": 1})
        settle(node)
        with CaptureQueriesContext(connection) as seen:
            sweeper.sweep()
        asked.append(len(seen))
    assert Job.objects.filter(status=JobStatus.RUNNING).count() == 6
    assert asked[0] == asked[1]
    assert jobs_behind_replicas() == []


@pytest.mark.django_db
def test_a_sweep_moves_a_job_that_is_behind_its_replicas():
    """As if a report had been applied without its rollup."""
    alice, node = a_user(), a_node(gpus=2)
    project = a_project("", alice)
    jobs = [a_job(alice, project, device={"gpus": 1}) for _ in range(2)]
    settle(node)
    Replica.objects.filter(attempt__job=jobs[0]).update(status=ReplicaStatus.EXITED, exit_code=0)
    assert jobs_behind_replicas() == [jobs[0].pk]
    sweeper.sweep()
    assert [Job.objects.get(pk=job.pk).status for job in jobs] == ["succeeded", "running"]
    assert jobs_behind_replicas() == []
