"""A gang uses RDMA where all its nodes offer the same; a request may refuse it or insist on it."""

import pytest

from agents.contract.rank_network import RankNetwork
from portal.desired.documents import documents_compile
from portal.inventory.models import Node
from scheduler.tasks import plan_once
from tests.support.rows import a_job, a_node, a_project, a_user

pytestmark = pytest.mark.django_db
IB, ROCE = "InfiniBand", "Ethernet"


def offer(node, layer: str) -> None:
    row = Node.objects.get(pk=node.row.pk)
    row.facts = row.facts | {"rdma": layer}
    row.save(update_fields=["facts"])


def with_rdma(*layers: str, **fields) -> list[bool]:
    """Of each replica of a gang with one GPU on each of these nodes."""
    for layer in layers:
        offer(a_node(), layer)
    alice = a_user()
    request = {"device": {"gpus": 1}, "replicas": len(layers)} | fields
    job = a_job(alice, a_project("", alice, gpus=8), **request)
    plan_once()
    documents = documents_compile(Node.objects.all()).values()
    replicas = [one for each in documents for one in each.document.replicas]
    assert {one.job for one in replicas} <= {str(job.uid)}
    return [one.rdma for one in replicas]


@pytest.mark.parametrize(
    ("layers", "fields", "found"),
    [
        ((IB, IB), {}, [True, True]),
        ((IB, ""), {}, [False, False]),
        ((IB, ROCE), {}, [False, False]),
        ((IB, IB), {"rdma": "off"}, [False, False]),
        ((IB, IB), {"rdma": "on"}, [True, True]),
        ((IB, ""), {"rdma": "on"}, []),
        ((IB, IB), {"backend": "gloo"}, [False, False]),
        ((IB,), {}, [False]),
    ],
)
def test_a_gang_uses_rdma_where_all_of_its_nodes_offer_the_same(layers, fields, found):
    assert with_rdma(*layers, **fields) == found


@pytest.mark.django_db(transaction=True)
def test_a_node_that_offers_no_rdma_any_more_takes_it_from_all_of_its_gang():
    """Before they start: all ranks have to agree."""
    pair = a_node(), a_node()
    for node in pair:
        node.rank_network = RankNetwork(rdma=IB)
        node.report()
    alice = a_user()
    a_job(alice, a_project("", alice, gpus=8), device={"gpus": 1}, replicas=2)
    plan_once()
    assert [node.hear().replicas[0].rdma for node in pair] == [True, True]
    pair[0].rank_network = RankNetwork(no_rdma="policy")
    pair[0].report()
    assert [node.hear().replicas[0].rdma for node in pair] == [False, False]
