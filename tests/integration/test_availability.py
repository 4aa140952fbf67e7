"""What is available by board and by node, in a fixed number of queries."""

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
    return next(each for each in board_availability() if each.board.key == key)


def test_an_empty_cluster_has_nothing_available():
    assert board_availability() == []


def test_what_is_carved_free_and_out_is_counted_apart(olga, team):
    node = a_node("n1", gpus=3)
    a_job(olga, team, device={"mig": "2g.35gb"})
    settle(node)
    Gpu.objects.filter(index=2).update(busy="a process of nobody")
    row = of("H200-141GB")
    assert (row.gpus, row.out_of_service, row.unallocated) == (2, 1, 1)
    assert row.max_slices["1g.18gb"] == 14
    assert row.carvable["1g.18gb"] == 7 + 5
    assert row.shareable == 2
    assert row.unallocated_shareable == 1


def test_a_node_that_takes_no_work_has_only_gpus_that_are_out():
    a_node("n1")
    a_node("n2", board="A100-80GB")
    Node.objects.filter(name="n1").update(schedulable=False)
    assert of("H200-141GB") == BoardAvailability(of("H200-141GB").board, out_of_service=1)
    assert of("A100-80GB").gpus == 1
    Node.objects.filter(name="n2").update(facts={"blocks": ["no driver"]})
    assert of("A100-80GB").out_of_service == 1
    Node.objects.filter(name="n2").update(status="retired")
    assert [row.board.key for row in board_availability()] == ["H200-141GB"]


def test_shares_are_counted_on_nodes_that_serve_them():
    a_node("n1", gpus=2)
    a_node("n2")
    Node.objects.filter(name="n1").update(facts={"share_clients": 0})
    row = of("H200-141GB")
    assert (row.gpus, row.shareable, row.unallocated_shareable) == (3, 1, 1)


def test_boards_and_nodes_are_counted_alike(olga, team):
    node = a_node("n1", gpus=4)
    for device in ({"mig": "3g.71gb"}, {"gpus": 1}, SHARE):
        a_job(olga, team, device=device)
    settle(node)
    a_node("n2", gpus=2)
    (node_row, _), (row,) = counts_by_board(node_availability())[0], board_availability()
    assert (row.gpus, row.unallocated) == (node_row.gpus, node_row.unallocated)
    assert row.idle_slices == node_row.idle_profiles
    assert row.carvable == node_row.carvable


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
