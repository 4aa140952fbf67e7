"""What a planning pass asks of the database: so many queries, however much there is and was."""

from datetime import timedelta
from uuid import uuid4

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from portal.allocations.models import Allocation
from portal.inventory.models import Gpu, Node
from portal.jobs.models import Attempt, Job, Replica
from portal.planning.history import LATE, mix, past_runs
from portal.planning.history_cache import DISCARD_AFTER, MAX_AGE, REFRESH_AFTER, HistoryCache
from portal.planning.node_cache import NodeCache
from portal.planning.planner_input import planner_input
from portal.planning.usage import SETTLED_AFTER, UsageHistory
from scheduler.commit import plan as committer
from scheduler.core.model.policy import Policy
from scheduler.core.model.states import JobStatus
from scheduler.core.plan import plan
from tests.support.rows import a_job, a_node, a_project, a_user, settle

pytestmark = pytest.mark.django_db(transaction=True)

HALF_LIFE = Policy().half_life_seconds
# Changes of nodes (two on SQLite), quotas, what was used, shares, the queue, what it runs after,
# the jobs that run, budgets, what images need.
QUERIES_OF_A_READ = 10
# Nodes, GPUs, slices, what is allocated of each (2).
QUERIES_OF_CHANGED_NODES = 5


@pytest.fixture
def alice():
    return a_user("alice")


@pytest.fixture
def vision(alice):
    return a_project("vision", alice)


def queries_of(work) -> int:
    with CaptureQueriesContext(connection) as seen:
        work()
    return len(seen)


def a_past(of: Job, ends: list) -> list[Job]:
    """Jobs like `of` that ran an hour until each of these times, with what they held."""
    held = Allocation.objects.filter(replica__attempt__job=of).get()
    jobs = [again(of, finished_at=end, started_at=end - timedelta(hours=1)) for end in ends]
    attempts = [Attempt(job=job, number=1, created_at=job.started_at) for job in jobs]
    Attempt.objects.bulk_create(attempts)
    replicas = [
        Replica(
            attempt=attempt, rank=0, node=held.replica.node, desired_state="gone", gone_revision=1
        )
        for attempt in attempts
    ]
    Replica.objects.bulk_create(replicas)
    rows = [
        again(
            held,
            replica=replica,
            reserved_at=job.started_at,
            bound_at=job.started_at,
            released_at=job.finished_at,
            used_seconds=3_600,
        )
        for replica, job in zip(replicas, jobs, strict=True)
    ]
    Allocation.objects.bulk_create(rows)
    return jobs


def again(row, **columns):
    """The same row anew, but for these columns; a job is written at once."""
    fields = {f.attname: getattr(row, f.attname) for f in row._meta.concrete_fields}
    fields.pop("id")
    fields |= {"uid": uuid4()} if isinstance(row, Job) else {}
    copy = type(row)(**fields)
    for name, value in columns.items():
        setattr(copy, name, value)
    if isinstance(copy, Job):
        copy.save(force_insert=True)
    return copy


@pytest.fixture
def ran(alice, vision):
    """A job that ran on a node of eight GPUs and gave its device back."""
    node = a_node("n1", gpus=8)
    job = a_job(alice, vision, device={"gpus": 1})
    settle(node, rounds=3)
    node.finish()
    settle(node, rounds=3)
    job.refresh_from_db()
    assert job.status == JobStatus.SUCCEEDED
    return job


def test_a_pass_reads_with_as_many_queries_whatever_there_is_and_was(alice, vision, ran):
    now, lately = timezone.now(), HistoryCache()
    planner_input(now=now, policy=Policy(), history=lately)
    a_job(alice, vision, begin_at="+1h")
    planner_input(now=now, policy=Policy(), history=lately)
    little = queries_of(lambda: planner_input(now=now, policy=Policy(), history=lately))
    a_past(ran, [now - timedelta(minutes=number) for number in range(1, 41)])
    for number in range(3):
        a_node(f"other{number}", gpus=2)
    for _ in range(20):
        a_job(alice, vision, begin_at="+1h")
    planner_input(now=now, policy=Policy(), history=lately)
    much = queries_of(lambda: planner_input(now=now, policy=Policy(), history=lately))
    cold = QUERIES_OF_A_READ + QUERIES_OF_CHANGED_NODES
    assert (little, much) == (cold, cold)


def test_a_pass_reads_nodes_only_if_something_changed_there(alice, vision, ran):
    now, kept = timezone.now(), {"history": HistoryCache(), "nodes": NodeCache()}

    def read() -> int:
        return queries_of(lambda: planner_input(now=now, policy=Policy(), **kept))

    read()
    a_job(alice, vision, begin_at="+1h")
    read()
    unchanged = read()
    Gpu.objects.filter(index=0).update(health="faulted")
    assert (unchanged, read(), read()) == (
        QUERIES_OF_A_READ,
        QUERIES_OF_A_READ + QUERIES_OF_CHANGED_NODES,
        QUERIES_OF_A_READ,
    )


def test_a_look_reads_only_what_is_new_and_knows_what_a_new_one_would(alice, vision, ran):
    now, lately = timezone.now(), HistoryCache()
    a_past(ran, [now - timedelta(hours=number) for number in range(1, 31)])
    lately.refresh(now)
    for round_number in range(3):
        a_past(ran, [now + timedelta(minutes=round_number)])
        a_job(alice, vision, begin_at="+1h", cpu=round_number + 2)
        assert queries_of(lambda: lately.refresh(now)) <= 5
        assert lately.run_history.runs == past_runs()
        assert lately.submissions.mix == mix()
    assert queries_of(lambda: lately.refresh(now)) == 3
    assert len(lately.run_history.runs) == 34


def test_what_was_committed_late_is_not_missed(ran):
    """A transaction took its time before another one, and was committed after it."""
    now, lately = timezone.now(), HistoryCache()
    a_past(ran, [now])
    lately.refresh(now)
    a_past(ran, [now - LATE / 2])
    lately.refresh(now)
    assert lately.run_history.runs == past_runs()
    assert len(lately.run_history.runs) == 3


def test_only_the_last_runs_and_requests_are_kept(ran, monkeypatch):
    monkeypatch.setattr("portal.planning.history.LAST_ENDED", 4)
    monkeypatch.setattr("portal.planning.history.LAST_SUBMITTED", 3)
    now, lately = timezone.now(), HistoryCache()
    for number in range(6):
        a_past(ran, [now + timedelta(minutes=number)])
        lately.refresh(now)
        assert lately.run_history.runs == past_runs()
        assert lately.submissions.mix == mix()
    assert len(lately.run_history.runs) == 4
    assert sum(demand.count for demand in lately.submissions.mix.demands) == 3


def test_past_runs_are_looked_for_again_after_a_while_and_never_too_old(ran):
    now, lately = timezone.now(), HistoryCache()
    lately.refresh_if_stale(now)
    a_past(ran, [now])
    second = timedelta(seconds=1)
    assert queries_of(lambda: lately.refresh_if_stale(now + REFRESH_AFTER - second)) == 0
    assert len(lately.current(now + MAX_AGE - second)[1]) == 1
    assert len(lately.current(now + MAX_AGE)[1]) == 2
    a_past(ran, [now])
    lately.refresh_if_stale(now + MAX_AGE + REFRESH_AFTER)
    assert len(lately.run_history.runs) == 3
    Job.objects.update(name="somebody renamed all of them by hand")
    lately.refresh(now + DISCARD_AFTER)
    assert {run.group for run in lately.run_history.runs} == {
        "somebody renamed all of them by hand"
    }


@pytest.mark.parametrize("half_life", [HALF_LIFE, 3_600], ids=["days", "hours"])
def test_what_was_used_is_exact_at_every_pass_though_it_is_summed_once(ran, half_life):
    """Whatever is given back between two passes, the next one knows it."""
    start, used = timezone.now(), UsageHistory()
    a_past(ran, [start - timedelta(hours=number) for number in range(1, 9)])
    for step in range(12):
        now = start + step * SETTLED_AFTER / 2
        a_past(ran, [now])
        assert used.released(now, half_life) == UsageHistory().released(now, half_life)
    total = sum(amounts[0] for amounts in used.released(now, HALF_LIFE).values())
    assert total >= (8 + 12) * 3_600 * 56_000
    assert queries_of(lambda: used.released(now, HALF_LIFE)) == 1


def test_another_half_life_is_summed_anew(ran):
    now, used = timezone.now(), UsageHistory()
    a_past(ran, [now - timedelta(days=number) for number in range(5)])
    for half_life in (HALF_LIFE, 3_600, 4 * 86_400, HALF_LIFE):
        assert used.released(now, half_life) == UsageHistory().released(now, half_life)


def test_nodes_hear_of_placements_before_the_rest_of_a_plan_is_written(alice, vision, monkeypatch):
    """And of the first placements of many before the last ones are made."""
    node = a_node("n1", gpus=3)
    with monkeypatch.context() as silent:
        silent.setattr("portal.submission.services.ring_plan", lambda: None)
        waits = [a_job(alice, vision, device={"gpus": 1}) for _ in range(4)]
    monkeypatch.setattr(committer, "BATCH_SIZE", 2)
    said: list[object] = []
    write, place = committer.deferrals_write, committer.placements_commit
    monkeypatch.setattr(
        committer, "deferrals_write", lambda holds: (said.append("holds"), write(holds))
    )

    def heard(placements, bypassed):
        placed = place(placements, bypassed)
        row = Node.objects.get(pk=node.row.pk)
        said.append((row.revision, len(row.desired["replicas"])))
        return placed

    monkeypatch.setattr(committer, "placements_commit", heard)
    decided = plan(planner_input(now=timezone.now(), policy=Policy()), Policy())
    committed = committer.commit(decided, lambda nodes: said.append(set(nodes)))
    assert (committed.placed, committed.nodes) == (3, {node.row.pk})
    assert said == [(2, 2), (3, 3), "holds", set()]
    assert Job.objects.get(pk=waits[3].pk).reason
