"""Admins measure the network between two nodes: the job, its result, and who is told and avoids."""

from datetime import timedelta

import pytest
from django.utils import timezone

from agents.contract.codec import encode
from agents.contract.launcher_names import LauncherName
from agents.contract.rank_network import RankNetwork
from agents.contract.topology import NodeTopology, ReportedNic
from portal.accounts.models import User
from portal.audit.models import AuditEntry, Event
from portal.errors import Refused
from portal.inventory.models import Gpu, Node
from portal.jobs.models import Job, Replica
from portal.jobs.services import job_cancel
from portal.node_pairs import services
from portal.node_pairs.models import PairMeasurement
from portal.node_pairs.selectors import bad_pairs, pairs_of
from portal.node_pairs.services import LATE_LOG, pair_measurements_collect
from portal.notices.collection import notices_collect
from portal.notices.models import Notice, NoticeSettings
from portal.storage.errors import StoreUnavailable
from portal.submission.pair_measurements import COMMAND, pair_measure
from portal.submission.retries import job_retry
from scheduler.sweeper import sweep
from tests.support.logs import write_log
from tests.support.nccl_outputs import TWO_NODES, a_table
from tests.support.rows import LIMITS, HonestNode, a_job, a_node, a_project, a_user, settle

pytestmark = pytest.mark.django_db
IMAGE = "registry/nccl-tests:2.17"
RAILS = NodeTopology(
    gpus=(0, 1),
    nics=tuple(
        ReportedNic(f"mlx5_{n}", "InfiniBand", True, True, mb_per_second=25_000, rail_of=(n,))
        for n in (0, 1)
    ),
)


@pytest.fixture
def root() -> User:
    root = a_user("root", is_superuser=True, email="root@example.org")
    a_project("infra", root, gpus=64)
    return root


def pair_node(name: str, *, gpus: int = 2, rdma: bool = True) -> HonestNode:
    node = a_node(name, gpus=gpus)
    node.launchers, node.simulated = tuple(LauncherName), False
    node.report()
    row = Node.objects.get(pk=node.row.pk)
    link = RankNetwork(rdma="InfiniBand" if rdma else "")
    row.facts, row.topology = row.facts | {"rank_network": encode(link)}, encode(RAILS)
    row.save(update_fields=["facts", "topology"])
    return node


@pytest.fixture
def nodes() -> list[HonestNode]:
    return [pair_node(name) for name in ("b", "a", "c")]


def measure(root: User, first: str = "a", second: str = "b", **fields) -> PairMeasurement:
    values = {"project": "infra", "image": IMAGE, "limits": LIMITS} | fields
    return pair_measure(user=root, nodes=(first, second), **values)


def run(row: PairMeasurement, nodes: list[HonestNode], text: str, exit_code: int = 0) -> None:
    """The job runs, prints `text` and ends; the sweep looks."""
    settle(*nodes)
    prints(row.job, text)
    for node in nodes:
        node.finish(exit_code)
    settle(*nodes)
    sweep()
    row.refresh_from_db()


def prints(job: Job, text: str, rank: int = 0) -> None:
    head = Replica.objects.filter(attempt__job=job).order_by("-attempt__number")
    head = head.select_related("attempt__job").get(rank=rank)
    data = text.encode()
    write_log(head, 0, data)
    Replica.objects.filter(pk=head.pk).update(log_bytes=len(data))


def codes(name: str) -> list[str]:
    rows = Event.objects.filter(node__name=name, code__startswith="pair_")
    return list(rows.order_by("id").values_list("code", flat=True))


def test_the_job_has_all_gpus_of_both_nodes_and_tessera_writes_its_command(root, nodes):
    row = measure(root, "b", "a")
    assert (row.first.name, row.second.name, row.verdict) == ("a", "b", "open")
    assert (row.expected_mb_per_second, row.expected_source) == (50_000, "line_rate")
    request = row.job.request
    assert (request["command"], request["image"]) == (list(COMMAND), IMAGE)
    assert (request["launcher"], request["replicas"]) == ("nccl-tests", 2)
    assert request["device"]["gpus"] == 2
    assert row.job.owner == root
    entry = AuditEntry.objects.get(action="pair_measure")
    assert (entry.noun_id, entry.after) == ("a", {"with": "b", "job": row.job.label})
    settle(*nodes)
    placed = Replica.objects.filter(attempt__job=row.job).values_list("node__name", flat=True)
    assert sorted(placed) == ["a", "b"]


def test_it_waits_for_its_own_nodes_though_others_are_free(root, nodes):
    row = measure(root, "a", "c")
    a_job(root, root.memberships.get().project, device={"gpus": 1}, needs=[])
    settle(*nodes)
    row.job.refresh_from_db()
    placed = Replica.objects.filter(attempt__job=row.job).values_list("node__name", flat=True)
    assert sorted(placed) == ["a", "c"]


def test_a_node_that_a_taint_keeps_from_other_jobs_is_measured(root, nodes):
    Node.objects.filter(name="a").update(taints=["suspect"])
    row = measure(root)
    settle(*nodes)
    row.job.refresh_from_db()
    assert row.job.status == "running"


def test_pairs_of_retired_nodes_are_not_shown(root, nodes):
    row = measure(root)
    run(row, nodes, a_table(12.3))
    assert pairs_of(row.second) == list(bad_pairs()) == [row]
    Node.objects.filter(name="a").update(status="retired")
    assert pairs_of(row.second) == list(bad_pairs()) == []


def test_a_good_result_is_kept_beside_what_is_expected(root, nodes):
    row = measure(root)
    run(row, nodes, TWO_NODES)
    assert (row.verdict, row.is_current, row.busbw_mb_per_second) == ("ok", True, 338_820)
    assert (row.message_bytes, row.wrong_values) == (8 << 30, 0)
    assert codes("a") == codes("b") == ["pair_measured"]
    assert not bad_pairs().exists()


def test_a_slow_pair_is_told_to_admins_once_and_avoided_until_it_is_measured_again(root, nodes):
    NoticeSettings.objects.create(user=root, kinds=["node"])
    notices_collect(timezone.now(), mails=True)
    row = measure(root)
    run(row, nodes, a_table(12.3))
    assert (row.verdict, row.busbw_mb_per_second) == ("slow", 12_300)
    assert codes("a") == ["pair_slow"] and codes("b") == ["pair_measured"]
    sentence = Event.objects.get(code="pair_slow").sentence
    assert "reached 12.3 of 50.0 GB/s" in sentence and "nvidia-peermem" in sentence
    notices_collect(timezone.now(), mails=True)
    assert [n.recipient for n in Notice.objects.filter(kind="node")] == [root]

    gang = {"device": {"gpus": 2}, "replicas": 2}
    job = a_job(root, root.memberships.get().project, **gang)
    settle(*nodes)
    placed = Replica.objects.filter(attempt__job=job).values_list("node__name", flat=True)
    assert "c" in placed
    for node in nodes:
        node.finish()
    settle(*nodes)

    again = measure(root, expected_mb_per_second=50_000)
    run(again, nodes, a_table(48))
    row.refresh_from_db()
    assert (again.verdict, again.is_current, row.is_current) == ("ok", True, False)
    assert not bad_pairs().exists()
    assert pairs_of(Node.objects.get(name="b")) == [again]


def test_a_result_waits_for_a_store_that_is_away(root, nodes, monkeypatch):
    """Its table is stored, so the measurement has not failed."""

    def read_log(*_args):
        raise StoreUnavailable("no answer")

    row = measure(root)
    with monkeypatch.context() as away:
        away.setattr(services, "read_log", read_log)
        run(row, nodes, a_table(48))
        pair_measurements_collect(now=timezone.now() + LATE_LOG)
        row.refresh_from_db()
        assert row.verdict == "open"
    pair_measurements_collect(now=timezone.now() + LATE_LOG)
    row.refresh_from_db()
    assert row.verdict == "ok"


def test_wrong_sums_are_found_though_the_program_fails(root, nodes):
    row = measure(root)
    run(row, nodes, a_table(48, wrong=2), exit_code=1)
    assert (row.verdict, row.wrong_values) == ("wrong", 4)
    assert codes("a") == ["pair_wrong"]
    assert [pair.pk for pair in bad_pairs()] == [row.pk]


def test_nothing_is_judged_without_an_expectation_unless_the_admin_gives_one(root):
    nodes = [pair_node("a", rdma=False), pair_node("b")]
    row = measure(root)
    assert (row.expected_mb_per_second, row.expected_source) == (0, "")
    run(row, nodes, a_table(0.4))
    assert row.verdict == "unjudged"
    again = measure(root, expected_mb_per_second=10_000)
    assert again.expected_source == "admin"
    run(again, nodes, a_table(0.4))
    assert again.verdict == "slow"


def test_a_table_of_any_other_job_counts_for_nothing(root, nodes):
    mallory = a_user("mallory")
    home = a_project("shady", mallory, gpus=64)
    forged = {
        "name": "pair-check",
        "image": IMAGE,
        "command": list(COMMAND),
        "launcher": "nccl-tests",
        "device": {"gpus": 2},
        "replicas": 2,
    }
    job = a_job(mallory, home, **forged)
    settle(*nodes)
    prints(job, a_table(0.1, wrong=9))
    for node in nodes:
        node.finish()
    settle(*nodes)
    sweep()
    assert not PairMeasurement.objects.exists()
    assert not Event.objects.filter(code__startswith="pair_").exists()


def test_a_retry_of_a_measurement_is_no_measurement(root, nodes):
    row = measure(root)
    run(row, nodes, "no table", exit_code=1)
    sweep_later(row)
    assert row.verdict == "failed"
    retry = job_retry(job=Job.objects.get(pk=row.job_id), actor=root, limits=LIMITS)
    settle(*nodes)
    prints(retry, a_table(0.1))
    for node in nodes:
        node.finish()
    settle(*nodes)
    sweep()
    assert list(PairMeasurement.objects.all()) == [row]


def sweep_later(row: PairMeasurement) -> None:
    pair_measurements_collect(now=timezone.now() + LATE_LOG + timedelta(seconds=1))
    row.refresh_from_db()


def test_the_end_of_a_log_may_be_late_but_not_for_ever(root, nodes):
    row = measure(root)
    run(row, nodes, a_table(48, average=False))
    assert row.verdict == "open"
    prints(row.job, a_table(48))
    sweep()
    row.refresh_from_db()
    assert row.verdict == "ok"

    again = measure(root)
    run(again, nodes, "")
    assert again.verdict == "open"
    sweep_later(again)
    assert (again.verdict, again.is_current) == ("failed", False)
    assert "printed no whole table" in again.problem["key"]
    # The result before it stays.
    row.refresh_from_db()
    assert row.is_current
    assert pairs_of(row.first) == [again, row]


def test_a_cancelled_measurement_is_over_and_the_pair_may_be_measured_again(root, nodes):
    row = measure(root)
    with pytest.raises(Refused) as busy:
        measure(root)
    assert busy.value.code == "pair_busy"
    job_cancel(job=row.job, actor=root.username)
    sweep()
    row.refresh_from_db()
    assert (row.verdict, row.problem["key"]) == ("failed", "%(job)s ended before it ran")
    assert measure(root).verdict == "open"


def test_a_job_that_ran_elsewhere_says_nothing_about_the_pair(root, nodes):
    row = measure(root)
    settle(*nodes)
    other = Node.objects.get(name="c")
    prints(row.job, a_table(0.1))
    for node in nodes:
        node.finish()
    settle(*nodes)
    Replica.objects.filter(attempt__job=row.job, rank=1).update(node=other)
    sweep()
    row.refresh_from_db()
    assert (row.verdict, row.problem["key"]) == ("failed", "%(job)s ran on other nodes")


@pytest.mark.parametrize(
    ("first", "second", "sentence"),
    [
        ("a", "a", "Choose two different nodes"),
        ("a", "nowhere", "There is no node 'nowhere'"),
        ("a", "small", "a and small have too different numbers of GPUs in service"),
        ("a", "older", "a and older have different models of GPU"),
        ("a", "apart", "a and apart are on networks that do not reach each other"),
        ("a", "broken", "Not both of a and broken have a GPU in service"),
    ],
)
def test_what_is_no_pair_is_refused_with_the_reason(root, nodes, first, second, sentence):
    pair_node("small", gpus=1)
    a_node("older", gpus=2, board="A30-24GB")
    pair_node("apart")
    Node.objects.filter(name="apart").update(fabric="other")
    pair_node("broken")
    Gpu.objects.filter(node__name="broken").update(health="faulted")
    with pytest.raises(Refused) as refused:
        measure(root, first, second)
    assert (refused.value.code, refused.value.sentence) == ("pair_invalid", sentence)


def test_without_an_image_nothing_is_measured(root, nodes):
    with pytest.raises(Refused) as refused:
        measure(root, image="")
    assert refused.value.code == "no_test_image"
    assert not Job.objects.exists()


def test_an_image_that_the_project_may_not_use_is_refused_and_leaves_nothing(root, nodes):
    with pytest.raises(Refused):
        measure(root, project="elsewhere")
    assert not PairMeasurement.objects.exists()
