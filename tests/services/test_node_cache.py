"""Nodes that a process keeps, on PostgreSQL, where transactions do not commit in their order."""

import threading
from dataclasses import replace
from operator import is_not

import pytest
from django.db import connection, transaction

from portal.database.kept_queries import KeptSelect
from portal.inventory.models import Gpu, Node
from portal.planning.node_cache import NodeCache
from portal.planning.node_views import node_records
from tests.support.inventory_changes import COUNTED, UNCOUNTED
from tests.support.rows import a_job, a_node, a_project, a_user, settle

pytestmark = [pytest.mark.services, pytest.mark.usefixtures("postgres_django")]


def of(nodes: NodeCache):
    nodes.refresh()
    return nodes.views, sorted(nodes.live, key=lambda row: row.id)


@pytest.mark.slow
def test_what_is_kept_is_what_would_be_read_on_postgresql():
    alice = a_user("alice")
    vision, kept = a_project("vision", alice, gpus=20), NodeCache()
    nodes = [a_node(f"n{number}", gpus=2) for number in (1, 2)]
    for device in ({"mig": "1g.18gb"}, {"gpus": 1}, {"mps": {"threads": 25, "memory": "8GiB"}}):
        a_job(alice, vision, device=device)
        assert of(kept) == of(NodeCache())
        settle(*nodes, rounds=3)
        assert of(kept) == of(NodeCache())
    assert kept.live
    nodes[0].finish()
    settle(*nodes, rounds=3)
    assert of(kept) == of(NodeCache())
    for number, change in enumerate((COUNTED | UNCOUNTED).values()):
        rows = [a_node(f"m{number}-{each}", gpus=2).row for each in (1, 2)]
        of(kept)
        with transaction.atomic():
            for row in rows:
                row.refresh_from_db()
            change(*rows)
            assert of(kept) == of(NodeCache())
            transaction.set_rollback(True)
        assert of(kept) == of(NodeCache())


def test_only_nodes_that_changed_are_read_again_on_postgresql():
    rows, kept = [a_node(f"n{number}", gpus=1).row for number in range(4)], NodeCache()
    before = of(kept)[0]
    # A transaction of anybody, such as autovacuum, may have them reported a second time.
    while any(map(is_not, again := of(kept)[0], before)):
        before = again
    Gpu.objects.filter(node=rows[2]).update(health="faulted")
    after = of(kept)[0]
    assert [one is other for one, other in zip(before, after, strict=True)].count(False) == 1


def test_a_transaction_that_has_changed_nothing_keeps_what_it_reads():
    rows, kept = [a_node(f"n{number}").row for number in range(2)], NodeCache()
    with transaction.atomic():
        before = of(kept)[0]
    while any(map(is_not, again := of(kept)[0], before)):
        before = again
    with transaction.atomic():
        assert of(kept)[0][0] is before[0]
        Node.objects.filter(pk=rows[1].pk).update(labels=["mine"])
        assert of(kept)[0][1].labels == ("mine",)
        transaction.set_rollback(True)
    assert of(kept)[0][1].labels == ()


def test_a_change_that_commits_after_a_later_one_is_seen():
    first, second = a_node("n1").row, a_node("n2").row
    kept, is_changed, may_commit = NodeCache(), threading.Event(), threading.Event()
    of(kept)

    def change_slowly() -> None:
        with transaction.atomic():
            Node.objects.filter(pk=first.pk).update(labels=["slow"])
            is_changed.set()
            assert may_commit.wait(300)
        connection.close()

    thread = threading.Thread(target=change_slowly)
    thread.start()
    assert is_changed.wait(300)
    for label in ("one", "two", "three"):
        Node.objects.filter(pk=second.pk).update(labels=[label])
        assert [view.labels for view in of(kept)[0]] == [(), (label,)]
    may_commit.set()
    thread.join(300)
    assert [view.labels for view in of(kept)[0]] == [("slow",), ("three",)]


def test_behind_another_server_every_node_is_read_again():
    """It may number its transactions from the beginning."""
    a_node("n1")
    kept = NodeCache()
    before = of(kept)[0]
    assert of(kept)[0][0] is before[0]
    assert kept._mark
    kept._mark = replace(kept._mark, server="started at another time")
    assert of(kept)[0][0] is not before[0]
    kept._mark = replace(kept._mark, number=kept._mark.number + 10**9)
    before = kept.views
    assert of(kept)[0][0] is not before[0]


def test_reads_that_are_kept_find_what_django_finds(monkeypatch):
    alice = a_user("alice")
    vision, nodes = a_project("vision", alice), [a_node(f"n{n}", gpus=2) for n in range(3)]
    a_job(alice, vision, device={"mig": "1g.18gb"})
    a_job(alice, vision, device={"gpus": 1})
    settle(*nodes, rounds=3)
    rows = [node.row for node in nodes]
    some = [rows[2].pk, rows[0].pk]
    kept = [node_records(), node_records(some), node_records([])]
    monkeypatch.setattr(KeptSelect, "_key", lambda *_: None)
    assert [node_records(), node_records(some), node_records([])] == kept
    assert len(kept[0]) == 3
    assert kept[1].keys() == set(some)
    assert any(record.live for record in kept[0].values())
