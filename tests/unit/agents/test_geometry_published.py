"""MIG geometry against brute force on the published tables, board by board.

The tables are read here as plain JSON with sets of slots; nothing is shared with the product but
the question. They stand beside the repository; without them this file is skipped, and says so.
"""

import itertools
import json
import random
from functools import cache
from pathlib import Path

import pytest

from agents.contract.boards import board_named, known_boards
from agents.contract.geometry import Placement, free_placements, is_legal, occupied_mask, placements
from tests.support.slow_geometry import fits_together, room_left

TABLES = Path(__file__).resolve().parents[3] / ".." / "shared" / "data" / "mig_profiles.json"
if not TABLES.is_file():
    pytest.skip("the published MIG tables are not beside the repository", allow_module_level=True)
MODELS = json.loads(TABLES.read_text("utf-8"))["models"]
every_board = pytest.mark.parametrize("key", sorted(MODELS))


def rows(key):
    return {profile["name"]: profile for profile in MODELS[key]["gi_profiles"]}


def spots(key):
    """Every (profile, start, slots) that the table publishes."""
    return [
        (name, place["start"], frozenset(range(place["start"], place["start"] + place["size"])))
        for name, row in rows(key).items()
        for place in row["placements"]
    ]


def may_stand(key, layout):
    """The rules of the table, on a list of spots."""
    slots = [slot for _, _, covered in layout for slot in covered]
    names = [name for name, _, _ in layout]
    table = rows(key)
    return (
        len(slots) == len(set(slots))
        and sum(table[name]["compute_slices"] for name in names) <= MODELS[key]["compute_slices"]
        and all(names.count(name) <= table[name]["max_instances"] for name in names)
    )


@cache
def all_layouts(key):
    """Every layout that may stand, as sets of spots: found by trying each spot after the other."""
    found = [()]
    for spot in spots(key):
        found += [(*layout, spot) for layout in found if may_stand(key, (*layout, spot))]
    return found


def placed(spot):
    name, start, covered = spot
    return Placement(start, len(covered), name)


def some(key, most=400):
    """All layouts where there are few, else a fixed sample of them."""
    layouts = all_layouts(key)
    return layouts if len(layouts) <= most else random.Random(key).sample(layouts, most)


def test_every_published_board_is_known():
    assert MODELS.keys() == {key for key, board in known_boards().items() if board.supports_mig}


@every_board
def test_the_table_is_carried_over_without_a_difference(key):
    model, board = MODELS[key], known_boards()[key]
    assert board.memory_slices == model["memory_slices"]
    assert board.compute_slices == model["compute_slices"]
    assert list(board.product_names) == model["product_names"]
    for profile, row in zip(board.profiles, model["gi_profiles"], strict=True):
        assert (profile.name, profile.id) == (row["name"], row["id"])
        assert profile.query_index == row["query_index"]
        assert profile.compute_slices == row["compute_slices"]
        assert row["memory_mib"] in (None, profile.memory_mib)
        assert profile.max_instances == row["max_instances"]
        assert [{"start": p.start, "size": p.size} for p in placements(profile)] == row[
            "placements"
        ]
        assert board.profile(row["name"]) == board.profile_by_id(row["id"]) == profile


@every_board
def test_where_the_table_has_no_number_there_is_still_one_that_is_not_too_large(key):
    """Two boards were never seen whole; a driver that has one must not stop the agent."""
    board = known_boards()[key]
    assert MODELS[key]["memory_total_mib"] in (None, board.memory_mib)
    assert board_named(board.product_names[0], board.memory_mib) is not None
    for profile in board.profiles:
        assert type(profile.memory_mib) is type(profile.multiprocessors) is int
        share = board.memory_mib * profile.memory_slices // board.memory_slices
        assert 0.8 * share < profile.memory_mib <= share


@every_board
def test_no_published_place_reaches_beyond_the_board(key):
    for _, _, covered in spots(key):
        assert max(covered) < MODELS[key]["memory_slices"]


@every_board
def test_each_pair_of_places_stands_together_exactly_when_the_table_allows_it(key):
    for pair in itertools.combinations_with_replacement(spots(key), 2):
        assert is_legal(known_boards()[key], map(placed, pair)) == may_stand(key, pair), pair


@every_board
def test_random_handfuls_of_places_are_legal_exactly_when_the_table_allows_them(key):
    choose, allowed = random.Random(key), 0
    for _ in range(2_000):
        handful = choose.sample(spots(key), choose.randint(1, 5))
        expected = may_stand(key, handful)
        assert is_legal(known_boards()[key], map(placed, handful)) == expected, handful
        allowed += expected
    assert 0 < allowed < 2_000


@every_board
def test_every_layout_of_the_table_is_legal_in_any_order(key):
    for layout in some(key):
        shuffled = random.Random(0).sample(layout, len(layout))
        assert is_legal(known_boards()[key], map(placed, shuffled)), layout


@every_board
def test_free_places_are_those_that_brute_force_finds(key):
    board = known_boards()[key]
    for layout in some(key):
        taken = [placed(spot) for spot in layout]
        for profile in board.profiles:
            expected = [
                placed(spot)
                for spot in spots(key)
                if spot[0] == profile.name and may_stand(key, (*layout, spot))
            ]
            assert free_placements(board, profile, taken) == expected, (layout, profile.name)


@every_board
def test_what_fits_beside_a_layout_and_how_much_room_it_leaves(key):
    board = known_boards()[key]
    plain = {p.name for p in board.profiles if not p.has_media_extensions}
    assert plain == {name for name in rows(key) if name.count("-") + name.count("+") == 0}
    for layout in some(key, most=200):
        taken = [placed(spot) for spot in layout]
        fits = [s for s in spots(key) if s[0] in plain and may_stand(key, (*layout, s))]
        offered = list(fits_together(board, taken))
        assert sorted(offered) == sorted(map(placed, fits))
        assert [p.size for p in offered] == sorted((p.size for p in offered), reverse=True)
        assert room_left(board, taken) == sum(len(covered) ** 2 for _, _, covered in fits)


@every_board
def test_occupancy_is_the_slots_that_are_covered(key):
    for layout in some(key):
        mask = occupied_mask(placed(spot) for spot in layout)
        bits = {bit for bit in range(64) if mask >> bit & 1}
        assert bits == {slot for _, _, covered in layout for slot in covered}


@every_board
def test_a_place_that_is_not_published_is_never_legal(key):
    board = known_boards()[key]
    published = {placed(spot) for spot in spots(key)}
    for name in rows(key):
        for start, size in itertools.product(range(-1, 9), range(1, 10)):
            place = Placement(start, size, name)
            if start >= 0:
                assert is_legal(board, [place]) is (place in published)
    assert not is_legal(board, [Placement(0, 1, "9g.999gb")])
