"""The Results tab of a user's own nccl-tests, and the advisor's link to such a request."""

import re
from dataclasses import replace

import pytest
from django.conf import settings
from django.test import override_settings

from agents.contract.codec import encode
from agents.contract.launcher_names import LauncherName
from agents.contract.rank_network import RankNetwork
from agents.contract.topology import NodeTopology, ReportedNic
from agents.launchers.ring_all_reduce import TITLE as RING_TITLE
from portal.inventory.models import Node
from portal.jobs.models import Replica
from portal.node_pairs.models import PairMeasurement
from portal.submission.pair_measurements import COMMAND
from tests.support.logs import write_log
from tests.support.nccl_outputs import a_table
from tests.support.rows import a_job, a_node, a_project, a_user, settle

pytestmark = pytest.mark.django_db
RAIL = ReportedNic("mlx5_0", "InfiniBand", True, True, mb_per_second=50_000, rail_of=(0, 1))


@pytest.fixture
def olga(client):
    olga = a_user("olga")
    client.force_login(olga)
    a_project("vision", olga, gpus=64)
    return olga


def an_nccl_node(name: str, gpus: int = 2):
    node = a_node(name, gpus=gpus)
    node.launchers = tuple(LauncherName)
    node.report()
    return node


def add_rails(*nodes) -> None:
    """As an agent reports them."""
    for node in nodes:
        row = Node.objects.get(pk=node.row.pk)
        network = encode(RankNetwork(rdma="InfiniBand"))
        row.facts |= {"rank_network": network, "simulated": False}
        row.topology = encode(NodeTopology(gpus=(0, 1), nics=(RAIL,)))
        row.save(update_fields=["facts", "topology"])


def results(
    client, olga, text: str, replicas: int = 1, launcher: str = "nccl-tests", there: int = 2
) -> str:
    """What the Results tab says of a job on two GPUs of so many nodes that printed this. `there`:
    GPUs of each node."""
    nodes = [an_nccl_node(name, there) for name in ("a", "b")[:replicas]]
    home = olga.memberships.get().project
    device = {"gpus": 2, "models": ["H200"]}
    fields = {"launcher": launcher, "command": list(COMMAND), "backend": "nccl"}
    job = a_job(olga, home, device=device, replicas=replicas, **fields)
    settle(*nodes)
    head = Replica.objects.select_related("attempt__job").get(rank=0)
    write_log(head, 0, text.encode())
    Replica.objects.filter(pk=head.pk).update(log_bytes=len(text.encode()))
    for node in nodes:
        node.finish()
    settle(*nodes)
    add_rails(*nodes)
    page = client.get(f"/jobs/{job.label}/results").content.decode()
    found = re.search(r'aria-labelledby="bandwidth">(.*?)</section>', page, re.S)
    return re.sub(r"<[^>]+>|\s+", " ", found[1]) if found else ""


def test_two_nodes_are_held_against_the_line_rate_and_no_pair_is_touched(client, olga):
    said = " ".join(results(client, olga, a_table(40), replicas=2).split())
    assert "Reached 40.0 GB/s Expected 50.0 GB/s Of expected 80 %" in said
    assert "at 1,024 MiB." in said
    assert "the line rate of the network cards of the slowest node" in said
    assert "Check" not in said
    assert not PairMeasurement.objects.exists()


def test_a_slow_one_says_what_to_check(client, olga):
    said = results(client, olga, a_table(12), replicas=2)
    assert "Check in this order" in said
    assert "1. GPUDirect RDMA: nvidia-peermem is loaded on each node" in said


def test_two_of_three_gpus_of_each_node_are_held_against_two_thirds_of_it(client, olga):
    said = " ".join(results(client, olga, a_table(12), replicas=2, there=3).split())
    assert "Reached 12.0 GB/s Expected 33.3 GB/s Of expected 36 %" in said
    assert "Check" not in said


def test_one_node_is_held_against_the_figures_of_its_board(client, olga):
    said = " ".join(results(client, olga, a_table(120)).split())
    assert "Reached 120.0 GB/s Expected 473.0 GB/s Of expected 25 %" in said
    assert "nvidia-smi topo -m" in said


@pytest.mark.parametrize(
    "text",
    ["x" * 300_000, a_table(40, average=False), f"{RING_TITLE}\n{a_table(40)}"],
    ids=["long", "without its end", "of sockets"],
)
def test_what_is_no_whole_table_is_no_result(client, olga, text):
    assert results(client, olga, text) == ""


def test_a_table_that_another_program_prints_is_none(client, olga):
    assert results(client, olga, a_table(40), launcher="none") == ""


def test_wrong_sums_are_told_without_a_rate_to_compare_with(client, olga):
    said = results(client, olga, a_table(300, wrong=3))
    assert "A sum was wrong: tell an admin" in said and "Check in this order" not in said


def test_the_advisor_fills_in_a_request_that_can_start(client, olga):
    an_nccl_node("a", 4)
    image = "registry/nccl-tests:2.17"
    with override_settings(PLATFORM=replace(settings.PLATFORM, nccl_tests_image=image)):
        asked = {"model": "llama2-70b", "task": "lora", "batch": "8"}
        page = client.get("/advise/", asked).content.decode()
        found = re.search(r'href="([^"]*)">Measure the network between these GPUs first', page)
        assert found, "the best answer has one GPU"
        form = client.get(found[1].replace("&amp;", "&")).content.decode()
    assert re.search(r'name="image" value="([^"]*)"', form)[1] == image
    assert " ".join(COMMAND) in form
    assert "Can start now" in form
