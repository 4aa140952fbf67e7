"""The Spec tab and REST say what the ranks of a gang are told, and why, as its nodes report it."""

import pytest
from django.urls import reverse
from rest_framework.test import APIClient

from agents.contract.codec import encode
from agents.contract.rank_network import RankNetwork
from agents.contract.topology import NodeTopology, ReportedNic
from portal.inventory.models import Node
from scheduler.tasks import plan_once
from tests.support.rows import a_job, a_node, a_project, a_user

pytestmark = pytest.mark.django_db
GPUS = tuple(range(8))
RAILS = NodeTopology(
    gpus=GPUS,
    nics=tuple(ReportedNic(f"mlx5_{n}", "InfiniBand", True, True, rail_of=(n,)) for n in GPUS),
)
HCA = "=" + ",".join(f"mlx5_{n}:1" for n in GPUS)


def report(name: str, network: RankNetwork) -> None:
    row = Node.objects.get(pk=a_node(name, gpus=8).row.pk)
    row.facts = row.facts | {"rdma": network.rdma, "rank_network": encode(network)}
    row.topology = encode(RAILS)
    row.save(update_fields=["facts", "topology"])


def shown(first: RankNetwork, second: RankNetwork, **fields):
    """Of a 2 x 8 job on these nodes: its Spec tab, and REST's answer to its owner and a member."""
    report("one", first)
    report("two", second)
    alice, bob = a_user("alice"), a_user("bob")
    home = a_project("", alice, bob, gpus=16)
    job = a_job(alice, home, device={"gpus": 8}, replicas=2, launcher="torchrun", **fields)
    plan_once()
    pages = []
    for user in (alice, bob):
        client = APIClient()
        client.force_login(user)
        pages.append(client.get(reverse("web:job_spec", args=[job.label])).content.decode())
        answer = client.get(f"/api/v1/jobs/{job.label}/rank-network")
        pages.append(answer.json()["results"])
    return pages


def values(told):
    return {one["name"]: one["value"] for one in told["variables"]}


def test_a_two_by_eight_job_is_told_the_rails_of_its_gpus_on_both_nodes():
    offer = RankNetwork("bond0", "InfiniBand")
    page, (told,), *_ = shown(offer, offer)
    assert (told["ranks"], sorted(told["nodes"])) == ([0, 1], ["one", "two"])
    assert values(told)["NCCL_IB_HCA"] == HCA
    assert "NCCL_IB_DISABLE" not in values(told)
    assert HCA in page
    assert "The RDMA devices nearest to this replica" in page


def test_without_rdma_on_one_node_both_say_why():
    without = RankNetwork("eth0", no_rdma="policy")
    page, told, *_ = shown(RankNetwork("bond0", "InfiniBand"), without)
    whys = {
        one["nodes"][0]: variable["why"]
        for one in told
        for variable in one["variables"]
        if variable["name"] == "NCCL_IB_DISABLE"
    }
    assert whys == {
        "one": "No RDMA: not every node of the gang offers the same.",
        "two": "No RDMA: the node's policy does not offer it to jobs.",
    }
    assert "mlx5" not in page


def test_the_value_of_a_request_is_told_to_those_who_may_read_it():
    offer = RankNetwork("bond0", "InfiniBand")
    page, (told,), other, (masked,) = shown(offer, offer, env={"NCCL_IB_HCA": "<mlx5_7>"})
    assert values(told)["NCCL_IB_HCA"] == "<mlx5_7>"
    assert "&lt;mlx5_7&gt;" in page
    assert "mlx5_7&gt;" not in other
    assert values(masked)["NCCL_IB_HCA"] != "<mlx5_7>"
