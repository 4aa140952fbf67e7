"""Gangs that have their network checked before they start: what runs, what follows from it, who has
the devices meanwhile, and that no check loses a job."""

from dataclasses import replace
from datetime import timedelta

import pytest
from django.conf import settings
from django.test import Client, override_settings
from django.urls import reverse
from django.utils import timezone
from rest_framework.test import APIClient

from agents.contract.launcher_names import LauncherName
from agents.contract.rank_network import RankNetwork
from agents.launchers.nccl_tests import RING
from agents.launchers.ring_all_reduce import TITLE
from portal.allocations.models import Allocation
from portal.audit.models import AuditEntry, Event
from portal.desired.services import node_drive
from portal.diagnosis.services import diagnoses_refresh
from portal.inventory.models import Node
from portal.jobs.models import Attempt, Job, Replica
from portal.jobs.preflights import PREFLIGHT_SECONDS
from portal.jobs.services import job_cancel
from portal.node_pairs import services
from portal.node_pairs.expectations import expected_between
from portal.node_pairs.models import PairMeasurement
from portal.node_pairs.selectors import bad_pairs
from portal.preflights import results
from portal.quotas.models import Quota
from portal.storage.errors import StoreUnavailable
from portal.submission.limits import request_limits
from scheduler.core.model.states import JobStatus
from scheduler.core.request import InvalidRequest, parse_request
from scheduler.sweeper import sweep
from scheduler.tasks import plan_once
from tests.integration.test_node_pairs import RAILS
from tests.support.logs import write_log
from tests.support.nccl_outputs import a_table
from tests.support.rows import HonestNode, a_job, a_node, a_project, a_request, a_user, settle

pytestmark = pytest.mark.django_db
IMAGE = "registry/nccl-tests:2.17"
GANG = {
    "device": {"gpus": 2},
    "replicas": 2,
    "topology": "any",
    "launcher": "torchrun",
    "env": {"LR": "1"},
    "preflight": "all-reduce",
    "retries": {"infrastructure": 1, "user": 0},
}


@pytest.fixture(autouse=True)
def image():
    with override_settings(PLATFORM=replace(settings.PLATFORM, nccl_tests_image=IMAGE)):
        yield IMAGE


@pytest.fixture
def alice():
    return a_user("alice")


@pytest.fixture
def vision(alice):
    return a_project("vision", alice, gpus=16)


def real_node(name: str, *, simulated: bool = False) -> HonestNode:
    node = a_node(name, gpus=2)
    node.launchers, node.simulated = tuple(LauncherName), simulated
    node.rank_network, node.topology = RankNetwork(rdma="InfiniBand"), RAILS
    node.report()
    return node


@pytest.fixture
def nodes() -> list[HonestNode]:
    return [real_node(name) for name in ("a", "b")]


def checked(job: Job, nodes: list[HonestNode], text: str, exit_code: int = 0) -> None:
    """The check runs, prints this and ends; the sweep looks."""
    settle(*nodes)
    attempt = job.attempts.latest("number")
    assert attempt.is_preflight
    head = Replica.objects.select_related("attempt__job").get(attempt=attempt, rank=0)
    write_log(head, 0, text.encode())
    Replica.objects.filter(pk=head.pk).update(log_bytes=len(text))
    for node in nodes:
        node.finish(exit_code)
    sweep()
    job.refresh_from_db()


def devices_of(attempt: Attempt) -> set[object]:
    rows = Allocation.objects.filter(replica__attempt=attempt)
    return set(rows.values_list("slice", flat=True))


def test_the_check_runs_on_the_gangs_devices_and_nothing_of_the_job_is_in_it(alice, vision, nodes):
    job = a_job(alice, vision, **GANG)
    settle(*nodes)
    job.refresh_from_db()
    assert (job.status, job.started_at) == (JobStatus.PREPARING, None)
    told = [replica for node in nodes for replica in node.hear().replicas]
    assert len(told) == 2
    for replica in told:
        assert (replica.image, replica.launcher) == (IMAGE, LauncherName.NCCL_TESTS)
        assert replica.command[0] == "all_reduce_perf"
        assert (replica.env, replica.processes, len(replica.devices)) == ({}, 2, 2)
        assert [secret.name for secret in replica.secrets] == ["TESSERA_GANG_KEY"]
        assert replica.time_limit_seconds == PREFLIGHT_SECONDS
    browser = Client()
    browser.force_login(alice)
    page = browser.get(f"/jobs/{job.label}/").content.decode()
    assert "Checking the network of a, b" in page and "The project pays for them" in page


def test_a_good_result_counts_for_the_pair_and_the_devices_pass_on(alice, vision, nodes):
    job = a_job(alice, vision, **GANG)
    settle(*nodes)
    used = set(Quota.objects.values_list("used_units", flat=True))
    rival = a_job(alice, vision, device={"gpus": 2})
    checked(job, nodes, a_table(48))
    first, second = job.attempts.order_by("number")
    assert (first.outcome, second.is_preflight) == ("succeeded", False)
    assert len(devices_of(first)) == 4 and devices_of(first) == devices_of(second)
    assert not Allocation.objects.live().filter(replica__attempt=first).exists()
    plan_once()
    rival.refresh_from_db()
    assert rival.status == JobStatus.QUEUED, "no pass may have them between the two"
    settle(*nodes)
    job.refresh_from_db()
    assert job.status == JobStatus.RUNNING
    assert job.started_at >= second.created_at, "the time limit begins with its own program"
    told = [replica for node in nodes for replica in node.hear().replicas]
    assert {replica.launcher for replica in told} == {LauncherName.TORCHRUN}
    assert {replica.env["LR"] for replica in told} == {"1"}
    assert job.infrastructure_retries_left == 1
    held = sum(Allocation.objects.live().values_list("units", flat=True))
    assert set(Quota.objects.values_list("used_units", flat=True)) == {held} == used
    row = PairMeasurement.objects.get()
    assert (row.attempt, row.job, row.measuring_job) == (first, None, job)
    assert (row.verdict, row.busbw_mb_per_second, row.is_current) == ("ok", 48_000, True)
    assert (row.expected_mb_per_second, row.expected_source) == (50_000, "line_rate")
    assert "over a, b reached 48.0 GB/s" in Event.objects.get(code="network_checked").sentence
    paid = Allocation.objects.filter(replica__attempt=first, project=vision, user=alice)
    assert all(row.bound_at for row in paid)
    ended = {row.released_at for row in paid}
    assert ended == {second.created_at}, "the project pays, without a gap"


@pytest.mark.slow
def test_nodes_that_were_measured_lately_start_at_once(alice, vision, nodes):
    checked(a_job(alice, vision, **GANG), nodes, a_table(48))
    settle(*nodes)
    for node in nodes:
        node.finish()
    again = a_job(alice, vision, **GANG)
    settle(*nodes)
    again.refresh_from_db()
    assert (again.status, again.attempts.get().preflight) == (JobStatus.RUNNING, None)
    for node in nodes:
        node.finish()
    PairMeasurement.objects.update(finished_at=timezone.now() - timedelta(hours=25))
    later = a_job(alice, vision, **GANG)
    settle(*nodes)
    assert later.attempts.get().is_preflight


def test_a_slow_pair_is_told_and_avoided_and_costs_no_retry(alice, vision, nodes):
    job = a_job(alice, vision, **GANG)
    checked(job, nodes, a_table(12.3))
    first = job.attempts.get()
    assert (first.outcome, first.first_failure["code"]) == ("failed", "network_check")
    assert "reached 12.3 of 50.0 GB/s" in first.first_failure["sentence"]
    assert (job.status, job.infrastructure_retries_left) == (JobStatus.QUEUED, 1)
    assert [str(code) for code in Event.objects.filter(node__name="a", code="pair_slow")]
    assert bad_pairs().get().attempt == first
    diagnoses_refresh()
    first.refresh_from_db()
    assert first.finding["cause"] == "network_check"
    nodes.append(real_node("c"))
    settle(*nodes)
    second = job.attempts.latest("number")
    placed = set(second.replicas.values_list("node__name", flat=True))
    assert second.is_preflight and "c" in placed
    checked(job, nodes, a_table(48))
    settle(*nodes)
    job.refresh_from_db()
    assert (job.status, job.attempts.count()) == (JobStatus.RUNNING, 3)
    assert job.infrastructure_retries_left == 1


def test_a_part_of_the_gpus_is_judged_by_its_part_of_what_an_admin_gave(alice, vision, nodes):
    """What a check before it was judged by is a part already."""
    first, second = (node.row for node in nodes)
    job = a_job(alice, vision, **GANG)
    attempt = Attempt.objects.create(job=job, number=1, created_at=timezone.now())
    for of, given in ({"job": job}, 40_000), ({"attempt": attempt}, 20_000):
        PairMeasurement.objects.create(
            **of,
            **{"first": first, "second": second, "verdict": "ok"},
            **{"expected_mb_per_second": given, "expected_source": "admin"},
        )
    half = {first.pk: 1, second.pk: 2}
    assert expected_between(first, second, gpus=half).mb_per_second == 20_000


def test_where_no_other_pair_is_the_gang_starts_on_the_slow_one(alice, vision, nodes):
    job = a_job(alice, vision, **GANG)
    checked(job, nodes, a_table(12.3))
    settle(*nodes)
    job.refresh_from_db()
    assert (job.status, job.attempts.count()) == (JobStatus.RUNNING, 2)
    assert not job.attempts.latest("number").is_preflight


def test_a_check_that_fails_by_itself_is_no_reason_not_to_start(alice, vision, nodes, monkeypatch):
    monkeypatch.setattr(results, "LATE_LOG", timedelta())
    job = a_job(alice, vision, **GANG)
    checked(job, nodes, "mpirun: not found\n", exit_code=127)
    settle(*nodes)
    job.refresh_from_db()
    assert (job.status, job.attempts.count()) == (JobStatus.RUNNING, 2)
    assert "gave no result" in Event.objects.get(code="network_checked").sentence
    assert not PairMeasurement.objects.exists()


@pytest.mark.slow
def test_a_check_without_a_result_is_the_last_one_of_its_job(alice, vision, nodes, monkeypatch):
    """A broken image would else cost its time at each start."""
    monkeypatch.setattr(results, "LATE_LOG", timedelta())
    job = a_job(alice, vision, **GANG | {"retries": {"infrastructure": 1, "user": 1}})
    checked(job, nodes, "mpirun: not found\n", exit_code=127)
    settle(*nodes)
    for node in nodes:
        node.finish(1)
    for _ in range(2):
        settle(*nodes)
    found = [attempt.is_preflight for attempt in job.attempts.order_by("number")]
    assert found == [True, False, False]


def test_it_waits_a_little_for_the_end_of_the_log(alice, vision, nodes):
    job = a_job(alice, vision, **GANG)
    checked(job, nodes, a_table(48, average=False))
    assert job.attempts.count() == 1
    results.preflights_collect(now=timezone.now() + timedelta(seconds=31))
    assert job.attempts.count() == 2


def test_a_store_that_is_away_does_not_hold_the_devices(alice, vision, nodes, monkeypatch):
    def read_log(*_args):
        raise StoreUnavailable("no answer")

    monkeypatch.setattr(services, "read_log", read_log)
    job = a_job(alice, vision, **GANG)
    checked(job, nodes, a_table(48))
    assert job.attempts.count() == 1
    results.preflights_collect(now=timezone.now() + timedelta(seconds=31))
    assert job.attempts.count() == 2
    assert "gave no result" in Event.objects.get(code="network_checked").sentence


@pytest.mark.slow
def test_a_check_that_takes_too_long_is_ended_and_the_gang_starts(alice, vision, nodes):
    job = a_job(alice, vision, **GANG)
    settle(*nodes)
    Replica.objects.update(started_at=timezone.now() - timedelta(seconds=PREFLIGHT_SECONDS + 40))
    sweep()
    settle(*nodes)
    results.preflights_collect(now=timezone.now() + timedelta(seconds=31))
    settle(*nodes)
    job.refresh_from_db()
    assert (job.status, job.attempts.count()) == (JobStatus.RUNNING, 2)


def test_a_rank_that_cannot_be_prepared_leaves_the_devices_to_the_gang(
    alice, vision, nodes, monkeypatch
):
    """The other rank has not started: its devices stay, although it is told to end."""
    monkeypatch.setattr(results, "LATE_LOG", timedelta())
    job = a_job(alice, vision, **GANG)
    plan_once()
    one = nodes[0]
    one.carry_out()
    (key, seen), *_ = one.replicas.items()
    one.replicas[key] = replace(seen, state="failed", code="image_pull", sentence="no such image")
    one.report()
    for node in nodes:
        node_drive(node_id=node.row.pk)
        node.obey()
    plan_once()
    assert Allocation.objects.live().count() == 4
    sweep()
    settle(*nodes)
    job.refresh_from_db()
    assert (job.status, job.attempts.count()) == (JobStatus.RUNNING, 2)


@pytest.mark.slow
def test_a_node_that_is_lost_meanwhile_costs_no_retry_and_keeps_nothing(alice, vision, nodes):
    job = a_job(alice, vision, **GANG)
    settle(*nodes)
    hour = timezone.now() - timedelta(hours=1)
    Node.objects.filter(pk=nodes[1].row.pk).update(last_seen_at=hour, lease_until=hour)
    sweep()
    settle(nodes[0])
    job.refresh_from_db()
    assert (job.status, job.infrastructure_retries_left) == (JobStatus.QUEUED, 1)
    third = real_node("c")
    settle(nodes[0], third)
    assert job.attempts.latest("number").is_preflight
    checked(job, [nodes[0], third], a_table(48))
    settle(nodes[0], third)
    job.refresh_from_db()
    assert job.status == JobStatus.RUNNING


def test_a_job_that_is_cancelled_during_its_check_ends(alice, vision, nodes):
    job = a_job(alice, vision, **GANG)
    settle(*nodes)
    job_cancel(job=Job.objects.get(pk=job.pk), actor="alice")
    settle(*nodes)
    sweep()
    job.refresh_from_db()
    assert (job.status, job.attempts.count()) == (JobStatus.CANCELLED, 1)
    plan_once()
    assert not Allocation.objects.live().exists()


def test_simulated_nodes_run_a_ring_which_is_judged_by_no_line_rate(alice, vision):
    nodes = [real_node(name, simulated=True) for name in ("a", "b")]
    job = a_job(alice, vision, **GANG)
    settle(*nodes)
    assert job.attempts.get().preflight["command"][0] == RING
    checked(job, nodes, f"{TITLE}\n{a_table(0.4)}")
    assert PairMeasurement.objects.get().verdict == "unjudged"
    assert job.attempts.count() == 2


def test_a_ring_says_nothing_about_nodes_with_real_gpus(alice, vision, nodes):
    job = a_job(alice, vision, **GANG)
    checked(job, nodes, f"{TITLE}\n{a_table(0.4)}")
    assert not PairMeasurement.objects.exists()
    assert job.attempts.count() == 2


def test_a_gang_on_one_node_and_one_that_does_not_ask_start_at_once(alice, vision):
    node = a_node("n", gpus=8)
    jobs = [a_job(alice, vision, **GANG), a_job(alice, vision, **GANG | {"preflight": "none"})]
    settle(node)
    assert not Attempt.objects.filter(preflight__isnull=False).exists()
    assert {Job.objects.get(pk=job.pk).status for job in jobs} == {JobStatus.RUNNING}


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"replicas": 1}, "several replicas of whole GPUs"),
        ({"device": {"mig": "2g.35gb"}}, "several replicas of whole GPUs"),
        ({}, "until an admin sets TESSERA_NCCL_TESTS_IMAGE"),
    ],
)
def test_what_cannot_be_checked_is_refused_with_what_to_write(vision, change, said):
    image = "" if not change else IMAGE
    with override_settings(PLATFORM=replace(settings.PLATFORM, nccl_tests_image=image)):
        limits = request_limits()
    with pytest.raises(InvalidRequest) as refused:
        parse_request(a_request(vision, **GANG | change), limits)
    found = [error for error in refused.value.errors if error.field == "preflight"]
    assert said in found[0].sentence and found[0].suggestion == {"preflight": "none"}


def test_an_admin_clears_a_result_and_gangs_use_the_pair_again(alice, vision, nodes):
    root = a_user("root", is_superuser=True)
    checked(a_job(alice, vision, **GANG), nodes, a_table(12.3))
    row = bad_pairs().get()
    client = APIClient()
    client.force_login(root)
    listed = client.get("/api/v1/pair-measurements").json()["results"][0]
    assert (listed["measured_by"], listed["verdict"]) == ("preflight", "slow")
    cleared = client.post(f"/api/v1/pair-measurements/{row.pk}/clear")
    assert (cleared.status_code, cleared.json()["is_current"]) == (200, False)
    assert not bad_pairs().exists()
    assert AuditEntry.objects.get(action="pair_clear").before == {"with": "b", "verdict": "slow"}
    again = client.post(f"/api/v1/pair-measurements/{row.pk}/clear")
    assert (again.status_code, again.json()["code"]) == (400, "pair_invalid")
    PairMeasurement.objects.update(is_current=True)
    browser = Client()
    browser.force_login(root)
    address = reverse("web:node_pairs", args=["a"])
    assert "Clear the result with b" in browser.get(address).content.decode()
    assert browser.post(address, {"clear": str(row.pk)}).status_code == 302
    assert not bad_pairs().exists()
