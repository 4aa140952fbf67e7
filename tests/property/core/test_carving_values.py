"""The value table of carving, against a slow computation that shares nothing with it."""

from functools import cache
from math import inf, prod

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from agents.contract.boards import known_boards
from agents.contract.geometry import placements
from scheduler.core.geometry.layout_graph import layout_graph
from scheduler.core.geometry.placement_value import (
    DEPARTURE_RARITY,
    HOLE_WEIGHT_UNKNOWN_MIX,
    layout_values,
    placement_loss,
    profile_weights,
)
from tests.support.examples import examples
from tests.support.slow_geometry import fits_together

KEYS = sorted(key for key, board in known_boards().items() if board.supports_mig)
some = examples(150)


@st.composite
def layouts(draw):
    """A board, a legal layout on it, and what can be made beside it."""
    board = known_boards()[draw(st.sampled_from(KEYS))]
    taken = []
    for _ in range(draw(st.integers(0, 6))):
        free = list(fits_together(board, taken))
        if not free:
            break
        taken.append(draw(st.sampled_from(free)))
    return board, taken, list(fits_together(board, taken))


def slow_window(board, taken):
    total = 0.0
    for profile in board.profiles:
        if "+" in profile.name or profile.name.count("-"):
            continue
        for place in placements(profile):
            ways = sum(1 for t in taken if set(t.slots) & set(place.slots))
            total += place.size * prod(j / (j + DEPARTURE_RARITY) for j in range(1, ways + 1))
    return total


def slow_hole(board, taken):
    @cache
    def most(layout):
        plain = [p for p in fits_together(board, list(layout)) if "+" not in p.profile]
        plain = [p for p in plain if p.profile.count("-") == 0]
        return max((p.size + most(tuple(sorted((*layout, p)))) for p in plain), default=0)

    return most(tuple(sorted(taken)))


@examples(60)
@given(world=layouts())
def test_the_table_equals_a_slow_computation_of_windows_and_holes(world):
    board, taken, _ = world
    table = layout_values(board)
    number = table.graph.layout_number(taken)
    slow = slow_window(board, taken) + HOLE_WEIGHT_UNKNOWN_MIX * slow_hole(board, taken)
    assert table.value[number] == pytest.approx(slow, abs=1e-4)


@some
@given(world=layouts(), data=st.data())
def test_no_placement_makes_room_under_any_mix(world, data):
    board, taken, free = world
    assume(free)
    shares = [data.draw(st.integers(0, 5)) for _ in board.profiles]
    mix = profile_weights(dict(zip((p.name for p in board.profiles), shares, strict=True)))
    place = data.draw(st.sampled_from(free))
    assert 0 <= placement_loss(board, taken, place, mix) < inf


@some
@given(world=layouts())
def test_a_fall_is_infinite_exactly_where_nothing_can_be_made(world):
    board, taken, free = world
    plain = (p for p in board.profiles if "+" not in p.name and not p.name.count("-"))
    for place in (place for profile in plain for place in placements(profile)):
        assert (placement_loss(board, taken, place) < inf) == (place in free)


def test_the_same_table_comes_out_every_time():
    for key in KEYS:
        mix = profile_weights({p.name: i + 1 for i, p in enumerate(known_boards()[key].profiles)})
        first = layout_values(known_boards()[key], mix)
        layout_values.cache_clear()
        assert (first.losses == layout_values(known_boards()[key], mix).losses).all()


def test_steps_forth_and_back_lead_to_the_same_layout():
    for key in KEYS:
        here = layout_graph(known_boards()[key])
        for layout in range(len(here.with_instance)):
            for spot, after in enumerate(here.with_instance[layout]):
                assert after < 0 or here.without_instance[after, spot] == layout


def test_weights_are_the_same_however_often_the_same_mix_was_seen():
    assert profile_weights({"1g.10gb": 1, "7g.80gb": 3}) == profile_weights(
        {"7g.80gb": 300, "1g.10gb": 100}
    )
    assert profile_weights({"1g.10gb": 0}) == ()
