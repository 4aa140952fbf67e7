"""What a ledger keeps when it follows a snapshot with the same nodes, and when it does not."""

from dataclasses import replace

from agents.contract.documents import SliceKind
from scheduler.core.model.decisions import DevicePlacement
from scheduler.core.placement.ledger import Ledger
from tests.support.snapshots import NOW, a_cluster, a_gpu, a_job, a_node

WHOLE = DevicePlacement("n1/0", SliceKind.GPU, "", 0, 8, 56_000, 141_000)


def a_ledger_that_keeps_one_gpu():
    snapshot = a_cluster(a_node(a_gpu(), a_gpu()))
    ledger = Ledger(snapshot)
    ledger.reserve_device(WHOLE, a_job())
    ledger.keep_reservations()
    return snapshot, ledger


def taken(ledger):
    return [key for key, gpu in ledger.gpus.items() if not gpu.is_empty]


def test_the_same_nodes_keep_what_is_kept_and_lose_what_came_after():
    snapshot, ledger = a_ledger_that_keeps_one_gpu()
    ledger.reserve_device(replace(WHOLE, gpu="n1/1"), a_job("2"))
    assert taken(ledger) == ["n1/0", "n1/1"]
    ledger.follow(replace(snapshot, now=NOW + 60))
    assert taken(ledger) == ["n1/0"]


def test_another_tuple_of_nodes_keeps_nothing():
    snapshot, ledger = a_ledger_that_keeps_one_gpu()
    ledger.follow(replace(snapshot, nodes=(*snapshot.nodes,)))
    assert taken(ledger) == []
