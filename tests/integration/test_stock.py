"""What is free by kind of GPU: the whole cluster in a fixed number of queries."""

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from portal.availability.nodes import by_board, cluster_digest
from portal.availability.offers import Stock, stock_now
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


def of(key: str) -> Stock:
    return next(stock for stock in stock_now() if stock.board.key == key)


def test_an_empty_cluster_has_no_stock():
    assert stock_now() == []


def test_what_is_carved_free_and_out_is_counted_apart(olga, team):
    node = a_node("n1", gpus=3)
    a_job(olga, team, device={"mig": "2g.35gb"})
    settle(node)
    Gpu.objects.filter(index=2).update(busy="a process of nobody")
    stock = of("H200-141GB")
    assert (stock.gpus, stock.out, stock.open) == (2, 1, 1)
    assert stock.most["1g.18gb"] == 14
    assert stock.fits["1g.18gb"] == 7 + 5
    assert stock.shareable == 2
    assert stock.open_to_share == 1


def test_a_node_that_takes_no_work_has_only_gpus_that_are_out():
    a_node("n1")
    a_node("n2", board="A100-80GB")
    Node.objects.filter(name="n1").update(schedulable=False)
    assert of("H200-141GB") == Stock(of("H200-141GB").board, out=1)
    assert of("A100-80GB").gpus == 1
    Node.objects.filter(name="n2").update(facts={"blocks": ["no driver"]})
    assert of("A100-80GB").out == 1
    Node.objects.filter(name="n2").update(status="retired")
    assert [stock.board.key for stock in stock_now()] == ["H200-141GB"]


def test_shares_are_counted_on_nodes_that_serve_them():
    a_node("n1", gpus=2)
    a_node("n2")
    Node.objects.filter(name="n1").update(facts={"share_clients": 0})
    stock = of("H200-141GB")
    assert (stock.gpus, stock.shareable, stock.open_to_share) == (3, 1, 1)


def test_it_agrees_with_the_digest_of_the_cluster_map(olga, team):
    node = a_node("n1", gpus=4)
    for device in ({"mig": "3g.71gb"}, {"gpus": 1}, SHARE):
        a_job(olga, team, device=device)
    settle(node)
    a_node("n2", gpus=2)
    (digest, _), (stock,) = by_board(cluster_digest())[0], stock_now()
    assert (stock.gpus, stock.open) == (digest.gpus, digest.open)
    assert stock.made == digest.made
    assert stock.fits == digest.fits


def test_more_nodes_are_no_more_queries():
    a_node("n1")
    stock_now()
    with CaptureQueriesContext(connection) as few:
        stock_now()
    for number in range(2, 6):
        a_node(f"n{number}")
    with CaptureQueriesContext(connection) as many:
        stock_now()
    assert len(few) == len(many) == 3
