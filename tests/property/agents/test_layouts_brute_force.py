"""The table of layouts against brute force: every subset of every board's placements.

What may stand together is decided here on sets of slots and lists of names, straight from
`boards.json`; nothing is shared with the product but the question.
"""

import itertools
import json
import random
from functools import cache
from importlib.resources import files

import pytest

from agents.contract.boards import known_boards
from agents.contract.geometry import Placement, free_placements, is_legal
from agents.contract.layouts import layout_table
from tests.support.slow_geometry import fits_together, room_left

MODELS = json.loads(files("agents.contract").joinpath("boards.json").read_text("utf-8"))["models"]
every_board = pytest.mark.parametrize("key", sorted(MODELS))


def rows(key):
    return {row["name"]: row for row in MODELS[key]["gi_profiles"]}


def spots(key):
    return [
        Placement(place["start"], place["size"], name)
        for name, row in rows(key).items()
        for place in row["placements"]
    ]


def may_stand(key, layout):
    """The rules, on a collection of placements."""
    table = rows(key)
    slots = [slot for place in layout for slot in range(place.start, place.start + place.size)]
    names = [place.profile for place in layout]
    return (
        len(slots) == len(set(slots))
        and sum(table[name]["compute_slices"] for name in names) <= MODELS[key]["compute_slices"]
        and all(names.count(name) <= table[name]["max_instances"] for name in set(names))
    )


@cache
def all_layouts(key):
    """Every subset that may stand. A part of one stands too, so no other subset needs a look."""
    found = [frozenset()]
    for spot in spots(key):
        found += [layout | {spot} for layout in found if may_stand(key, layout | {spot})]
    return found


@cache
def lookup(key):
    return frozenset(all_layouts(key))


def some(key, most):
    """All layouts where there are few, else a fixed sample of them."""
    found = all_layouts(key)
    return found if len(found) <= most else random.Random(key).sample(found, most)


def is_plain(name):
    return "+" not in name and "-" not in name


def ways(key, layout, name, count):
    """Every set of `count` more of a profile that may stand beside the layout."""
    places = [spot for spot in spots(key) if spot.profile == name and spot not in layout]
    return [
        frozenset(more)
        for more in itertools.combinations(places, count)
        if layout.union(more) in lookup(key)
    ]


@every_board
def test_the_table_has_every_legal_layout_and_no_other(key):
    table = layout_table(known_boards()[key])
    listed = list(table)
    assert table.is_complete
    assert len(table) == len(listed) == len(all_layouts(key))
    assert {frozenset(layout) for layout in listed} == lookup(key)


@every_board
def test_of_all_subsets_of_the_plain_places_the_table_has_those_that_may_stand(key):
    """No pruning: each of the 2^18 subsets (2^7 on a four-slice board) is looked at by itself."""
    plain = [spot for spot in spots(key) if is_plain(spot.profile)]
    # A hexadecimal digit a slot counts who covers it.
    covers = [sum(16**slot for slot in place.slots) for place in plain]
    twice, counts, stand = int("e" * MODELS[key]["memory_slices"], 16), [0], {frozenset()}
    for subset in range(1, 1 << len(plain)):
        low = subset & -subset
        counts.append(counts[subset ^ low] + covers[low.bit_length() - 1])
        if not counts[subset] & twice:
            layout = frozenset(place for i, place in enumerate(plain) if subset >> i & 1)
            if may_stand(key, layout):
                stand.add(layout)
    table = map(frozenset, layout_table(known_boards()[key]))
    assert {layout for layout in table if layout <= set(plain)} == stand


@every_board
def test_random_handfuls_of_places_are_legal_exactly_when_they_may_stand(key):
    table, choose, allowed = layout_table(known_boards()[key]), random.Random(key), 0
    for _ in range(2_000):
        handful = choose.choices(spots(key), k=choose.randint(1, 5))
        assert table.is_legal(handful) == may_stand(key, handful), handful
        allowed += table.is_legal(handful)
    assert 0 < allowed < 2_000


@every_board
def test_what_can_be_made_beside_each_layout_is_what_brute_force_and_geometry_find(key):
    board, table = known_boards()[key], layout_table(known_boards()[key])
    for layout in some(key, 500):
        room = table.free_beside(layout)
        fits = {
            spot for spot in spots(key) if spot not in layout and layout | {spot} in lookup(key)
        }
        assert {place for places in room.by_profile.values() for place in places} == fits
        assert set(room.plain) == {place for place in fits if is_plain(place.profile)}
        assert list(room.plain) == list(fits_together(board, layout))
        assert room.room_score == room_left(board, layout)
        for profile in board.profiles:
            assert list(room.by_profile[profile.name]) == free_placements(board, profile, layout)
        assert is_legal(board, layout)


@every_board
def test_how_many_can_be_made_together_is_the_largest_set_that_stands(key):
    table = layout_table(known_boards()[key])
    for layout in some(key, 150):
        for name, most in table.free_beside(layout).max_count.items():
            assert most == 0 or ways(key, layout, name, most), (layout, name)
            assert not ways(key, layout, name, most + 1), (layout, name)


@every_board
def test_a_placement_destroys_exactly_the_larger_ones_that_stood_before_and_not_after(key):
    table, row = layout_table(known_boards()[key]), rows(key)

    def size(place):
        return row[place.profile]["memory_slices"], row[place.profile]["compute_slices"]

    def may_be_made(layout):
        return {s for s in spots(key) if s not in layout and layout | {s} in lookup(key)}

    for layout in some(key, 60):
        before = may_be_made(layout)
        for place in before:
            lost = before - may_be_made(layout | {place}) - {place}
            larger = {p for p in lost if is_plain(p.profile) and size(p) > size(place)}
            destroyed = table.larger_lost(layout, place)
            assert set(destroyed) == larger
            assert len(destroyed) == len(larger)
            assert [size(p) for p in destroyed] == sorted(map(size, destroyed), reverse=True)


def cheapest(key, layout, held, name, count):
    """Deletions and slices deleted of the cheapest change, by trying every set of deletions."""
    prices = [
        (number, sum(place.size for place in drop))
        for number in range(len(layout - held) + 1)
        for drop in itertools.combinations(layout - held, number)
        if ways(key, layout.difference(drop), name, count)
    ]
    return min(prices, default=None)


@every_board
def test_the_cheapest_change_is_as_cheap_as_any_and_touches_nothing_that_is_held(key):
    table, choose, made, refused = layout_table(known_boards()[key]), random.Random(key), 0, 0
    for layout in some(key, 70):
        held = frozenset(place for place in sorted(layout) if choose.random() < 0.4)
        name = choose.choice([name for name in rows(key) if is_plain(name)])
        count = choose.randint(1, rows(key)[name]["max_instances"])
        change = table.make_room(layout, name, in_use=held, count=count)
        price = cheapest(key, layout, held, name, count)
        if change is None:
            assert price is None, (layout, held, name, count)
            refused += 1
            continue
        assert (len(change.deletes), change.deleted_slices) == price, (layout, held, name, count)
        assert set(change.deletes) <= layout - held
        assert [place.profile for place in change.creates] == [name] * count
        assert layout.difference(change.deletes).union(change.creates) in lookup(key)
        made += 1
    assert made > 5 and refused > 5


@pytest.mark.parametrize("key", ["A30-24GB", "H200-141GB"])
def test_of_equally_cheap_changes_the_one_that_leaves_most_room_is_taken(key):
    board, table = known_boards()[key], layout_table(known_boards()[key])
    names = [name for name in rows(key) if is_plain(name)]
    for layout, name in itertools.product(some(key, 60), names):
        change = table.make_room(layout, name)
        after = layout.difference(change.deletes).union(change.creates)
        price = (len(change.deletes), change.deleted_slices)
        for drop in itertools.combinations(sorted(layout), price[0]):
            if sum(place.size for place in drop) == price[1]:
                for more in ways(key, layout.difference(drop), name, 1):
                    other = layout.difference(drop) | more
                    assert room_left(board, other) <= room_left(board, after), (layout, name)
