"""One count of what is free: Home, Cluster, Queue, request cards, REST and the command line."""

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from portal.accounts.models import User
from portal.availability import published
from portal.availability.nodes import node_summaries, totals_by_board
from portal.availability.selectors import availability_for
from portal.inventory.models import Node
from portal.jobs.services import job_cancel
from scheduler.core.availability.counts import MPS_SHARE, WHOLE_GPU, Category
from scheduler.tasks import plan_once
from tests.support.faces import Facts
from tests.support.own_faces import face_reader
from tests.support.rows import HonestNode, a_job, a_node, a_project, a_user, settle

pytestmark = pytest.mark.django_db(transaction=True)
SHARE = {"mps": {"threads": 25, "memory": "8GiB"}}
H200 = "H200-141GB"


@pytest.fixture(params=[False, True], ids=["counted here", "published"])
def one_answer(request, olga, tmp_path, monkeypatch):
    """Reads all faces: as on a small cluster, and as on a large one after the next pass."""
    read_faces = face_reader(olga, tmp_path)
    if request.param:
        monkeypatch.setattr(published, "PUBLISHED_FROM", 1)

    def read() -> Facts:
        if request.param:
            plan_once()
        return read_faces()

    return read


def of_one_slice(olga: User, team) -> HonestNode:
    """Four GPUs, and a job with a slice of 35 GB on one of them."""
    node = a_node("n1", gpus=4)
    a_job(olga, team, device={"mig": "2g.35gb"})
    settle(node)
    return node


def test_a_running_slice_is_not_free_on_any_face(olga, team, one_answer):
    of_one_slice(olga, team)
    answer = one_answer()
    assert (answer["free"], answer["in service"], answer["not counted"]) == (3, 4, 0)
    assert (answer["free on n1"], answer["idle slices"]) == (3, 0)
    assert (answer["2g.35gb available"], answer["3g.71gb available"]) == (3 * 3 + 2, 3 * 2 + 1)


def test_an_idle_slice_hides_nothing_on_any_face(olga, team, one_answer):
    node = of_one_slice(olga, team)
    node.finish()
    settle(node)
    answer = one_answer()
    assert (answer["free"], answer["in service"], answer["idle slices"]) == (4, 4, 1)
    assert (answer["2g.35gb available"], answer["3g.71gb available"]) == (4 * 3, 4 * 2)


def test_a_foreign_process_is_out_of_service_on_every_face(olga, team, one_answer):
    node = of_one_slice(olga, team)
    node.finish()
    settle(node)
    one_answer()
    node.busy = {3: "python of somebody"}
    node.report()
    answer = one_answer()
    assert (answer["free"], answer["in service"]) == (3, 3)
    assert (answer["out"], answer["away"], answer["not counted"]) == (1, 0, 1)


def test_a_node_that_blocks_itself_is_unavailable_on_every_face(olga, team, one_answer):
    node = of_one_slice(olga, team)
    node.finish()
    settle(node)
    one_answer()
    node.blocks = ("no driver",)
    node.report()
    answer = one_answer()
    assert (answer["gpus"], answer["in service"], answer["2g.35gb available"]) == (4, 0, 0)
    assert (answer["out"], answer["away"], answer["not counted"]) == (0, 4, 4)


def test_a_card_that_starts_in_seconds_never_reads_none_free(olga, team):
    """A whole GPU and a half are held; the half beside it is hidden by idle slices of 18 GB."""
    node = a_node("n1", gpus=2)
    a_job(olga, team, device={"gpus": 1})
    a_job(olga, team, device={"mig": "3g.71gb"})
    small = [a_job(olga, team, device={"mig": "1g.18gb"}) for _ in range(3)]
    settle(node)
    for job in small:
        job_cancel(job=job, actor="olga")
    settle(node)
    client = Client()
    client.force_login(olga)
    text = client.get("/request/").content.decode()
    assert "1 of 4 free: 1 by re-carving" in text
    row = availability_for(olga).total
    assert row.units[Category.RECARVABLE] and not row.units[Category.RESERVED]


def test_an_empty_cluster_has_nothing_available(olga):
    found = availability_for(olga)
    assert not found.boards and not found.total.gpus and node_summaries(found) == []


def test_a_retired_node_is_not_counted(olga):
    a_node("n1")
    a_node("n2", board="A100-80GB")
    Node.objects.filter(name="n2").update(status="retired")
    found = availability_for(olga)
    assert list(found.boards) == [H200] and list(found.nodes) == ["n1"]


def test_room_beside_shares_is_for_those_of_the_project(olga, team):
    node = a_node("n1")
    a_job(olga, team, device=SHARE)
    settle(node)
    other = a_user("otto")
    a_project("speech", other)
    assert availability_for(olga).total.of(MPS_SHARE).ready == 1
    assert availability_for(other).total.of(MPS_SHARE).available == 0
    assert availability_for(other).total.units[Category.SHARED] == 42_000


def test_shares_are_counted_on_nodes_that_serve_them(olga):
    a_node("n1", gpus=2)
    a_node("n2")
    Node.objects.filter(name="n1").update(facts={"share_clients": 0})
    total = availability_for(olga).total
    assert (total.of(WHOLE_GPU).total, total.of(MPS_SHARE).total) == (3, 1)


def test_boards_and_nodes_add_up(olga, team):
    node = a_node("n1", gpus=4)
    for device in ({"mig": "3g.71gb"}, {"gpus": 1}):
        a_job(olga, team, device=device)
    settle(node)
    a_node("n2", gpus=2)
    found = availability_for(olga)
    ((board, counts, nodes),) = totals_by_board(node_summaries(found), found)
    assert (board.key, nodes) == (H200, 2)
    assert counts == found.boards[H200] == found.total


def test_totals_of_some_nodes_are_those_of_these(olga):
    """Also where another one was retired after the count."""
    a_node("n1", gpus=4)
    a_node("n2", gpus=2)
    found = availability_for(olga)
    ((_, counts, nodes),) = totals_by_board(node_summaries(found, "n2"), found)
    assert (counts, nodes) == (found.nodes["n2"].total, 1)
    Node.objects.filter(name="n1").update(status="retired")
    ((_, counts, nodes),) = totals_by_board(node_summaries(found), found)
    assert (counts, nodes) == (found.nodes["n2"].total, 1)


def test_boards_are_listed_by_memory(olga):
    for board in ("A100-40GB", H200, "A100-80GB"):
        a_node(board=board)
    cluster = availability_for(olga)
    found = [board.key for board, _, _ in totals_by_board(node_summaries(cluster), cluster)]
    assert found == [H200, "A100-80GB", "A100-40GB"]


def test_more_nodes_are_no_more_queries(olga):
    a_node("n1")
    counted: list[int] = []
    for number in (2, 7):
        availability_for(olga)  # the process keeps the snapshot
        with CaptureQueriesContext(connection) as queries:
            node_summaries(availability_for(olga))
        counted.append(len(queries))
        for more in range(number, number + 5):
            a_node(f"n{more}")
    assert counted[0] == counted[1]
