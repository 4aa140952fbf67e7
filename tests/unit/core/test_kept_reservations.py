"""What a ledger keeps when it follows a snapshot of the same moment, and when it does not."""

from dataclasses import replace

import pytest

from agents.contract.documents import SliceKind
from agents.contract.units import UNITS_PER_GPU
from scheduler.core.model.decisions import DevicePlacement
from scheduler.core.placement.ledger import Ledger
from tests.support.snapshots import NOW, a_cluster, a_gpu, a_job, a_node, a_quota

WHOLE = DevicePlacement("n1/0", SliceKind.GPU, "", 0, 8, 56_000, 141_000)


def a_ledger_that_keeps_one_gpu():
    snapshot = a_cluster(a_node(a_gpu(), a_gpu()), quotas=[a_quota(gpus=2)])
    ledger = Ledger(snapshot)
    ledger.reserve_device(WHOLE, a_job())
    ledger.charge("p", "u", UNITS_PER_GPU)
    ledger.keep_reservations()
    return snapshot, ledger


def taken(ledger):
    """The GPUs, and how many of them count against the quota."""
    gpus = [key for key, gpu in ledger.gpus.items() if not gpu.is_empty]
    return gpus, ledger.accounts.account(("p", "")).in_use / UNITS_PER_GPU


def test_other_waiting_jobs_keep_what_is_kept_and_lose_what_came_after():
    snapshot, ledger = a_ledger_that_keeps_one_gpu()
    ledger.reserve_device(replace(WHOLE, gpu="n1/1"), a_job("2"))
    ledger.charge("p", "u", UNITS_PER_GPU)
    assert taken(ledger) == (["n1/0", "n1/1"], 2)
    ledger.follow(replace(snapshot, jobs=(a_job("3"),)))
    assert taken(ledger) == (["n1/0"], 1)


@pytest.mark.parametrize("part", ["nodes", "quotas"])
def test_another_tuple_keeps_nothing(part):
    snapshot, ledger = a_ledger_that_keeps_one_gpu()
    ledger.follow(replace(snapshot, **{part: (*getattr(snapshot, part),)}))
    assert taken(ledger) == ([], 0)


def test_another_moment_keeps_nothing():
    snapshot, ledger = a_ledger_that_keeps_one_gpu()
    ledger.follow(replace(snapshot, now=NOW + 60))
    assert taken(ledger) == ([], 0)
