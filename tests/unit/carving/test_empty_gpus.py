"""While many GPUs of a board are empty, one more that is begun costs little."""

from dataclasses import replace

from agents.contract.boards import known_boards
from agents.contract.geometry import Placement
from scheduler.core.geometry.placement_value import min_empty_gpus
from scheduler.core.geometry.profile_demand import roomy_boards
from scheduler.core.model.snapshot import Demand, DemandMix, DeviceRequest
from scheduler.core.placement.ledger import Ledger
from scheduler.core.placement.search import placement_values
from tests.support.snapshots import a_cluster, a_gpu, a_job, a_node, a_slice, devices, plan_of

KEY = "H100-80GB"
BOARD = known_boards()[KEY]
PLAIN = ("1g.10gb", "1g.20gb", "2g.20gb", "3g.40gb", "4g.40gb", "7g.80gb")
MIX = DemandMix(tuple(Demand(DeviceRequest(mig=name), 1, 1, 1) for name in PLAIN))


def cluster(empty, *, full, **changed):
    """One GPU with 3g.40gb at 4, then so many that are full and so many that are empty."""
    whole = [a_gpu(a_slice("7g.80gb", 0, board=KEY), board=KEY) for _ in range(full)]
    begun = a_gpu(a_slice("3g.40gb", 4, board=KEY), board=KEY)
    node = a_node(begun, *whole, *(a_gpu(board=KEY) for _ in range(empty)), **changed)
    return replace(a_cluster(node, jobs=[a_job(mig="3g.40gb")]), mix=MIX)


def test_the_place_that_only_a_4g_can_have_is_kept_while_many_gpus_are_empty():
    roomy, tight = cluster(2, full=6), cluster(1, full=7)
    assert (roomy_boards(roomy), roomy_boards(tight)) == ({KEY}, frozenset())
    assert devices(plan_of(roomy)) == [("n1/7", "3g.40gb", 4)]
    assert devices(plan_of(tight)) == [("n1/0", "3g.40gb", 0)]


def test_a_share_of_the_gpus_has_to_be_empty_and_two_at_least():
    assert [min_empty_gpus(gpus) for gpus in (1, 6, 20, 100)] == [2, 2, 3, 15]


def test_idle_slices_leave_a_gpu_empty_and_a_node_that_is_away_has_none():
    idle = a_gpu(a_slice("1g.10gb", 0, board=KEY, allocated=False), board=KEY)
    assert roomy_boards(a_cluster(a_node(idle, idle))) == {KEY}
    assert roomy_boards(cluster(5, full=0, available=False)) == frozenset()


def test_a_ledger_that_follows_another_snapshot_judges_by_the_mix_of_that_one():
    """Ledgers are kept over passes; the mix changes."""
    before = cluster(1, full=7)
    after = replace(before, mix=DemandMix((Demand(DeviceRequest(mig="1g.10gb"), 1, 1, 1),)))
    held, place = [Placement(4, 4, "3g.40gb")], Placement(0, 4, "3g.40gb")
    ledger = Ledger(before)
    first = placement_values(ledger).loss(BOARD, held, place)
    ledger.follow(after)
    followed = placement_values(ledger).loss(BOARD, held, place)
    assert followed == placement_values(Ledger(after)).loss(BOARD, held, place) != first
