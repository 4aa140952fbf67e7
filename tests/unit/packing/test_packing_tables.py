"""What holes are worth, what CPU still lets fill, F, scarcity, the mix: against figures by hand."""

import itertools

import numpy as np
import pytest

from scheduler.core.packing.fill_tables import fill_table, least_draw_law
from scheduler.core.packing.fragmentation import fragmentation, typical_kinds
from scheduler.core.packing.holes import hole_values
from scheduler.core.packing.kinds import RequestKind
from scheduler.core.packing.recent_demand import LEARN_AT, WINDOW, RecentDemand, prior_mix
from scheduler.core.packing.scarcity import MAX_SCARCITY, model_shares, scarcity
from scheduler.core.packing.tables import ClusterExtent, hole_values_of_mix, score_tables
from scheduler.core.packing.thousandths import ThousandthsGeometry
from scheduler.core.packing.weights import FILLING, STEADY, score_weights


def a_share(milli, cpu=1_000, memory=1_024, models=None):
    return RequestKind(cpu, memory, 1, milli / 1_000, milli, models)


def whole_gpus(gpus=1, cpu=1_000, models=None):
    return RequestKind(cpu, 1_024, gpus, float(gpus), 1_000, models)


def test_a_hole_that_no_request_fits_is_worth_nothing():
    values = hole_values({25: 1.0, 50: 2.0})

    assert values[24] == 0
    assert values[25] == pytest.approx(0.25)
    assert values[50] == pytest.approx(0.5)
    assert values[49] == pytest.approx(0.25)
    assert values[100] == 1


def test_four_fifths_of_a_gpu_leave_nothing_where_nobody_asks_for_a_fifth():
    values = hole_values({81: 10.0, 47: 4.0})

    assert values[19] == 0
    assert values[81] == pytest.approx(1.0)
    assert values[47] == pytest.approx(0.5)


@pytest.mark.parametrize("demand", [{30: 3, 40: 1, 70: 2}, {10: 1, 45: 9}, {99: 1}, {1: 1, 60: 2}])
def test_nothing_that_fits_on_a_gpu_together_is_worth_more_than_the_gpu(demand):
    values = hole_values({size: float(count) for size, count in demand.items()})

    assert (np.diff(values) >= 0).all()
    for first, second in itertools.combinations_with_replacement(sorted(demand), 2):
        if first + second <= 100:
            assert values[first] + values[second] <= 1 + 1e-6


def test_without_shares_only_a_whole_gpu_is_worth_something():
    assert list(np.flatnonzero(hole_values({}))) == [100]
    assert list(np.flatnonzero(hole_values_of_mix({whole_gpus(): 5.0}))) == [100]


def test_one_kind_of_work_fills_as_many_gpus_as_its_cpu_allows():
    table = fill_table([(1_000, 1.0)], step=250, top=16, gpus=4)

    assert table[4, 16] == 4
    assert table[4, 11] == 2
    assert table[4, 3] == 0
    assert table[0, 16] == 0


def test_the_least_of_three_draws_has_this_law():
    law = least_draw_law([(250, 1.0), (500, 1.0)], step=250, top=8, choices=3)

    assert law == [(1, pytest.approx(7 / 8)), (2, pytest.approx(1 / 8))]


def test_more_cpu_or_more_idle_gpus_never_fill_less():
    table = fill_table([(300, 2.0), (900, 1.0), (4_000, 1.0)], step=250, top=64, gpus=8)

    assert (np.diff(table, axis=0) >= -1e-12).all()
    assert (np.diff(table, axis=1) >= -1e-12).all()


def test_fragmentation_counts_what_typical_work_cannot_use():
    kinds = ((a_share(500), 0.5), (whole_gpus(2), 0.25), (RequestKind(1_000, 0, 0, 0.0), 0.25))
    states = (300, 600, 1_000)

    # 0.3 for the share; all 1.9 for two whole GPUs, of which there is one; all for CPU-only work.
    expected = 0.5 * 0.3 + 0.25 * 1.9 + 0.25 * 1.9
    assert fragmentation(states, 8_000, 0, kinds, ThousandthsGeometry()) == pytest.approx(expected)


def test_without_cpu_or_with_the_wrong_model_all_idle_gpu_is_fragmented():
    kinds = ((a_share(500, models=frozenset({1})), 1.0),)

    assert fragmentation((800, 100), 8_000, 0, kinds, ThousandthsGeometry()) == pytest.approx(0.9)
    assert fragmentation((800, 100), 999, 1, kinds, ThousandthsGeometry()) == pytest.approx(0.9)
    assert fragmentation((800, 100), 8_000, 1, kinds, ThousandthsGeometry()) == pytest.approx(0.1)


def test_the_typical_kinds_are_the_commonest_ones_whatever_their_memory():
    mix = {
        a_share(500): 50.0,
        a_share(500, memory=4_096): 40.0,
        whole_gpus(): 9.0,
        whole_gpus(8): 1.0,
    }

    kinds = typical_kinds(mix)

    assert [(kind.gpus, kind.amount) for kind, _ in kinds] == [(1, 0.5), (1, 1.0)]
    assert sum(share for _, share in kinds) == pytest.approx(1.0)


def test_a_model_is_scarce_where_its_idle_gpus_are_fewer_than_what_is_to_come():
    mix = {whole_gpus(models=frozenset({0})): 1.0, whole_gpus(): 3.0}
    shares = model_shares(mix, (10, 30))

    assert list(shares) == [0.25, 0.0]
    cost = scarcity(shares, np.array([5.0, 35.0]), idle=40.0, capacity=40.0)
    assert cost[0] == pytest.approx(0.25 * 40 / 5)
    assert cost[1] == 0
    assert scarcity(shares, np.array([0.0, 0.0]), idle=40.0, capacity=40.0)[0] == MAX_SCARCITY


def test_work_for_several_models_is_split_by_their_gpus():
    shares = model_shares({whole_gpus(models=frozenset({0, 1})): 2.0}, (10, 30))

    assert list(shares) == [0.25, 0.75]


def test_tables_of_a_model_come_from_the_work_that_may_run_there():
    mix = {
        whole_gpus(cpu=1_000, models=frozenset({0})): 1.0,
        whole_gpus(cpu=8_000, models=frozenset({1})): 1.0,
    }
    tables = score_tables(
        mix,
        ClusterExtent(
            cpu_milli=8_000, memory_mib=65_536, max_gpus_per_node=4, gpus_by_model=(4, 4)
        ),
    )

    assert tables.cpu[0, 4, 16] == pytest.approx(4.0)
    assert tables.cpu[1, 4, 16] == 0


def test_weights_follow_departures_and_end_at_the_steady_ones():
    assert score_weights(0.0) == FILLING
    assert score_weights(1.0) == score_weights(7.0) == STEADY
    assert FILLING.fragmentation < score_weights(0.4).fragmentation < STEADY.fragmentation


def test_the_prior_fades_as_requests_come_and_old_requests_are_forgotten():
    recent = RecentDemand(prior_mix(lambda thousandths: thousandths))
    first = recent.mix()
    assert sum(first.values()) == pytest.approx(256.0)

    asked = [recent.add(whole_gpus(4)) for _ in range(WINDOW)]
    assert recent.mix() == {whole_gpus(4): float(WINDOW)}
    assert [i + 1 for i, due in enumerate(asked) if due][:4] == list(LEARN_AT)

    recent.add(whole_gpus(2))
    assert recent.mix() == {whole_gpus(4): float(WINDOW - 1), whole_gpus(2): 1.0}
