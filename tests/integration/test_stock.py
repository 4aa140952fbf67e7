"""What is free by kind of GPU: the whole cluster in a fixed number of queries."""

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from portal.availability.nodes import counts_by_board, node_availability
from portal.availability.offers import BoardAvailability, board_availability
from portal.inventory.models import Gpu, Node
from tests.support.rows import a_job, a_node, a_project, a_user, settle

pytestmark = pytest.mark.django_db(transaction=True)
SHARE = {"mps": {"threads": 25, "memory": "8GiB"}}


@pytest.fixture
def olga():
    return a_user("olga")


@pytest.fixture
def team(olga):
    return a_project("vision", olga)


def of(key: str) -> BoardAvailability:
    return next(stock for stock in board_availability() if stock.board.key == key)


def test_an_empty_cluster_has_no_stock():
    assert board_availability() == []


def test_what_is_carved_free_and_out_is_counted_apart(olga, team):
    node = a_node("n1", gpus=3)
    a_job(olga, team, device={"mig": "2g.35gb"})
    settle(node)
    Gpu.objects.filter(index=2).update(busy="a process of nobody")
    stock = of("H200-141GB")
    assert (stock.gpus, stock.out_of_service, stock.unallocated) == (2, 1, 1)
    assert stock.max_slices["1g.18gb"] == 14
    assert stock.carvable["1g.18gb"] == 7 + 5
    assert stock.shareable == 2
    assert stock.unallocated_shareable == 1


def test_a_node_that_takes_no_work_has_only_gpus_that_are_out():
    a_node("n1")
    a_node("n2", board="A100-80GB")
    Node.objects.filter(name="n1").update(schedulable=False)
    assert of("H200-141GB") == BoardAvailability(of("H200-141GB").board, out_of_service=1)
    assert of("A100-80GB").gpus == 1
    Node.objects.filter(name="n2").update(facts={"blocks": ["no driver"]})
    assert of("A100-80GB").out_of_service == 1
    Node.objects.filter(name="n2").update(status="retired")
    assert [stock.board.key for stock in board_availability()] == ["H200-141GB"]


def test_shares_are_counted_on_nodes_that_serve_them():
    a_node("n1", gpus=2)
    a_node("n2")
    Node.objects.filter(name="n1").update(facts={"share_clients": 0})
    stock = of("H200-141GB")
    assert (stock.gpus, stock.shareable, stock.unallocated_shareable) == (3, 1, 1)


def test_it_agrees_with_the_digest_of_the_cluster_map(olga, team):
    node = a_node("n1", gpus=4)
    for device in ({"mig": "3g.71gb"}, {"gpus": 1}, SHARE):
        a_job(olga, team, device=device)
    settle(node)
    a_node("n2", gpus=2)
    (digest, _), (stock,) = counts_by_board(node_availability())[0], board_availability()
    assert (stock.gpus, stock.unallocated) == (digest.gpus, digest.unallocated)
    assert stock.idle_slices == digest.idle_profiles
    assert stock.carvable == digest.carvable


def test_more_nodes_are_no_more_queries():
    a_node("n1")
    board_availability()
    with CaptureQueriesContext(connection) as few:
        board_availability()
    for number in range(2, 6):
        a_node(f"n{number}")
    with CaptureQueriesContext(connection) as many:
        board_availability()
    assert len(few) == len(many) == 3
