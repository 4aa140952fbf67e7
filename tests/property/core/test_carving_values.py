"""The value table of carving, against a slow computation that shares nothing with it."""

from functools import cache
from math import inf, prod

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from agents.contract.boards import boards
from agents.contract.geometry import placements
from scheduler.core.geometry.layout_graph import shape
from scheduler.core.geometry.placement_value import HOLE_UNKNOWN, RETURN, fall, values, weights_of
from tests.support.slow_geometry import fits_together

KEYS = sorted(key for key, board in boards().items() if board.supports_mig)
some = settings(max_examples=150, deadline=None, derandomize=True)


@st.composite
def layouts(draw):
    """A board, a legal layout on it, and what can be made beside it."""
    board = boards()[draw(st.sampled_from(KEYS))]
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
            total += place.size * prod(j / (j + RETURN) for j in range(1, ways + 1))
    return total


def slow_hole(board, taken):
    @cache
    def most(layout):
        plain = [p for p in fits_together(board, list(layout)) if "+" not in p.profile]
        plain = [p for p in plain if p.profile.count("-") == 0]
        return max((p.size + most(tuple(sorted((*layout, p)))) for p in plain), default=0)

    return most(tuple(sorted(taken)))


@settings(max_examples=60, deadline=None, derandomize=True)
@given(world=layouts())
def test_the_table_equals_a_slow_computation_of_windows_and_holes(world):
    board, taken, _ = world
    table = values(board)
    number = table.shape.number(taken)
    slow = slow_window(board, taken) + HOLE_UNKNOWN * slow_hole(board, taken)
    assert table.value[number] == pytest.approx(slow, abs=1e-4)


@some
@given(world=layouts(), data=st.data())
def test_no_placement_makes_room_under_any_mix(world, data):
    board, taken, free = world
    assume(free)
    shares = [data.draw(st.integers(0, 5)) for _ in board.profiles]
    mix = weights_of(dict(zip((p.name for p in board.profiles), shares, strict=True)))
    place = data.draw(st.sampled_from(free))
    assert 0 <= fall(board, taken, place, mix) < inf


@some
@given(world=layouts())
def test_a_fall_is_infinite_exactly_where_nothing_can_be_made(world):
    board, taken, free = world
    plain = (p for p in board.profiles if "+" not in p.name and not p.name.count("-"))
    for place in (place for profile in plain for place in placements(profile)):
        assert (fall(board, taken, place) < inf) == (place in free)


def test_the_same_table_comes_out_every_time():
    for key in KEYS:
        mix = weights_of({p.name: i + 1 for i, p in enumerate(boards()[key].profiles)})
        first = values(boards()[key], mix)
        values.cache_clear()
        assert (first.falls == values(boards()[key], mix).falls).all()


def test_steps_forth_and_back_lead_to_the_same_layout():
    for key in KEYS:
        here = shape(boards()[key])
        for layout in range(len(here.after)):
            for spot, after in enumerate(here.after[layout]):
                assert after < 0 or here.before[after, spot] == layout


def test_weights_are_the_same_however_often_the_same_mix_was_seen():
    assert weights_of({"1g.10gb": 1, "7g.80gb": 3}) == weights_of({"7g.80gb": 300, "1g.10gb": 100})
    assert weights_of({"1g.10gb": 0}) == ()
