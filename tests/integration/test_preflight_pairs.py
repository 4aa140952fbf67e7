"""A gang over more than two nodes whose ring is slow: its pairs are measured next, on the same
devices, and the slow ones are told and avoided. A gang with a good ring is not held up."""

from dataclasses import replace
from datetime import timedelta

import pytest
from django.conf import settings
from django.test import override_settings
from django.utils import timezone

from agents.launchers.nccl_tests import PAIRS, RING
from agents.launchers.pair_rounds import ranks_of_pair
from agents.launchers.ring_all_reduce import TITLE as RING_TITLE
from portal.audit.models import Event
from portal.jobs.models import Attempt, Job
from portal.node_pairs.models import PairMeasurement
from portal.node_pairs.selectors import bad_pairs
from portal.preflights import results
from scheduler.core.model.states import JobStatus
from tests.integration.test_preflights import GANG, IMAGE, checked, devices_of, real_node
from tests.support.nccl_outputs import a_table, pair_names, pair_tables
from tests.support.rows import HonestNode, a_job, a_project, a_user, settle

pytestmark = pytest.mark.django_db
THREE = GANG | {"replicas": 3}


@pytest.fixture(autouse=True)
def image():
    with override_settings(PLATFORM=replace(settings.PLATFORM, nccl_tests_image=IMAGE)):
        yield IMAGE


@pytest.fixture
def nodes() -> list[HonestNode]:
    return [real_node(name) for name in ("a", "b", "c")]


@pytest.fixture
def job(nodes) -> Job:
    alice = a_user("alice")
    return a_job(alice, a_project("vision", alice, gpus=16), **THREE)


def printed(job: Job, tables: dict[str, str]) -> str:
    """By the check of its pairs: `tables` by the names of two nodes, such as "ab"."""
    attempt = job.attempts.latest("number")
    on = dict(attempt.replicas.values_list("rank", "node__name"))
    found = []
    for name in pair_names(attempt.preflight["command"]):
        pair = "".join(sorted(on[rank] for rank in ranks_of_pair(name)))
        found.append((name, tables.get(pair, "mpirun: lost")))
    return pair_tables(found)


GOOD = {pair: a_table(48) for pair in ("ab", "ac", "bc")}


def test_a_good_ring_is_measured_once(job, nodes):
    checked(job, nodes, a_table(48))
    assert [attempt.is_preflight for attempt in job.attempts.order_by("number")] == [True, False]
    assert not PairMeasurement.objects.exists()


def test_a_slow_ring_has_its_pairs_measured_on_the_same_devices_and_the_slow_one_is_avoided(
    job, nodes
):
    checked(job, nodes, a_table(12.3))
    first, second = job.attempts.order_by("number")
    assert job.status == JobStatus.PREPARING
    assert devices_of(first) == devices_of(second)
    assert second.preflight["image"] == IMAGE and second.preflight["command"][0] == PAIRS
    told = Event.objects.get(code="network_checked").sentence
    assert told == (
        "The network check over a, b, c reached 12.3 of 50.0 GB/s. Its pairs of nodes are "
        "measured now"
    )
    checked(job, nodes, printed(job, GOOD | {"bc": a_table(10)}))
    assert (job.status, job.infrastructure_retries_left) == (JobStatus.QUEUED, 1)
    second.refresh_from_db()
    assert (second.outcome, second.first_failure["code"]) == ("failed", "network_check")
    assert "between b and c reached 10.0 of 50.0 GB/s" in second.first_failure["sentence"]
    rows = PairMeasurement.objects.order_by("first__name", "second__name")
    found = [(row.first.name, row.second.name, row.verdict, row.attempt) for row in rows]
    assert found == [
        *(("a", "b", "ok", second), ("a", "c", "ok", second), ("b", "c", "slow", second)),
    ]
    assert [event.node.name for event in Event.objects.filter(code="pair_slow")] == ["b"]
    nodes.append(real_node("d"))
    settle(*nodes)
    placed = job.attempts.latest("number").replicas.values_list("node__name", flat=True)
    assert not {"b", "c"} <= set(placed)


@pytest.mark.slow
def test_where_no_other_place_is_the_gang_starts_on_the_slow_pair_without_a_third_check(job, nodes):
    checked(job, nodes, a_table(12.3))
    slow_and_wrong = {"bc": a_table(10), "ab": a_table(48, wrong=2)}
    checked(job, nodes, printed(job, GOOD | slow_and_wrong))
    failure = job.attempts.latest("number").first_failure["sentence"]
    assert "several pairs of nodes that are slow or add wrongly: a and b, b and c" in failure
    assert {row.verdict for row in bad_pairs()} == {"slow", "wrong"}
    settle(*nodes)
    job.refresh_from_db()
    assert (job.status, job.attempts.count()) == (JobStatus.RUNNING, 3)


@pytest.mark.parametrize(
    ("ring", "code"),
    [
        (a_table(12.3), "pair_slow"),
        pytest.param(a_table(48, wrong=1), "pair_wrong", marks=pytest.mark.slow),
    ],
)
def test_where_no_pair_is_bad_by_itself_that_is_said_and_the_gang_starts(job, nodes, ring, code):
    checked(job, nodes, ring)
    assert not Event.objects.filter(code=code).exists()
    checked(job, nodes, printed(job, GOOD))
    said = Event.objects.filter(code="network_checked").latest("pk").sentence
    assert "but no pair of neighbours in it is slow or adds wrongly by itself" in said
    assert Event.objects.get(code=code).sentence == said
    assert PairMeasurement.objects.filter(verdict="ok").count() == 3
    settle(*nodes)
    job.refresh_from_db()
    assert (job.status, job.attempts.count()) == (JobStatus.RUNNING, 3)


@pytest.mark.slow
def test_where_some_pairs_gave_no_result_admins_are_asked_to_measure(job, nodes, monkeypatch):
    monkeypatch.setattr(results, "LATE_LOG", timedelta())
    checked(job, nodes, a_table(12.3))
    checked(job, nodes, printed(job, {"ab": a_table(48)}), exit_code=1)
    said = Event.objects.get(code="pair_slow").sentence
    assert "measuring some gave no result: an admin can measure them" in said
    assert PairMeasurement.objects.count() == 1
    assert not job.attempts.latest("number").is_preflight


@pytest.mark.slow
def test_simulated_nodes_measure_their_pairs_with_the_ring_of_sockets(job, nodes):
    for node in nodes:
        node.simulated = True
        node.report()
    checked(job, nodes, f"{RING_TITLE}\n{a_table(0.4, wrong=1)}")
    command = job.attempts.latest("number").preflight["command"]
    assert command[0] == RING and command[-2] == "--rounds"
    table = f"{RING_TITLE}\n{a_table(0.4)}"
    checked(job, nodes, printed(job, dict.fromkeys(GOOD, table)))
    assert {row.verdict for row in PairMeasurement.objects.all()} == {"unjudged"}
    assert not job.attempts.latest("number").is_preflight


@pytest.mark.slow
def test_a_gang_whose_neighbours_were_measured_lately_starts_at_once(job, nodes):
    nodes.append(real_node("d"))
    by_name = {node.row.name: node.row for node in nodes}
    attempt = Attempt.objects.create(job=job, number=1, created_at=timezone.now())
    for first, second in ("ab", "bc", "cd", "ad"):
        PairMeasurement.objects.create(
            **{"first": by_name[first], "second": by_name[second], "attempt": attempt},
            **{"verdict": "ok", "is_current": True, "finished_at": timezone.now()},
        )
    four = a_job(job.owner, job.project, **GANG | {"replicas": 4})
    Job.objects.filter(pk=job.pk).update(status=JobStatus.CANCELLED)
    settle(*nodes)
    four.refresh_from_db()
    assert (four.status, four.attempts.get().preflight) == (JobStatus.RUNNING, None)
