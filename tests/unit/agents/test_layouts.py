"""What the table of layouts promises, in examples that a reader can check by hand.

H200: eight memory slices, seven compute slices. Full use of both and the strandings are from
facts/partitioning.md 1.5; counts were found by brute force over the published tables.
"""

import dataclasses

import pytest

import agents.contract.layouts as module
from agents.contract.boards import known_boards, unknown_board
from agents.contract.geometry import Placement, free_placements, is_legal
from agents.contract.layouts import LayoutChange, layout_table

H200 = known_boards()["H200-141GB"]
TABLE = layout_table(H200)
SIZES = {"1g.18gb": 1, "1g.18gb+me": 1, "1g.35gb": 2, "2g.35gb": 2, "3g.71gb": 4, "4g.71gb": 4}

NARROW = {"1g.18gb+me": 1, "2g.35gb": 1, "3g.71gb": 1, "4g.71gb": 0, "7g.141gb": 0}


def at(start, profile):
    return Placement(start, SIZES.get(profile, 8), profile)


def ones(*starts):
    return [at(start, "1g.18gb") for start in starts]


def made_of(names):
    return [layout for layout in TABLE if sorted(p.profile.split(".")[0] for p in layout) == names]


@pytest.mark.parametrize(
    ("key", "number"),
    [("H200-141GB", 2_319), ("A100-40GB", 2_319), ("A30-24GB", 84), ("RTX-PRO-6000-96GB", 1_249)],
)
def test_a_board_has_so_many_layouts(key, number):
    assert len(layout_table(known_boards()[key])) == number


def test_a_seven_slice_board_has_723_layouts_of_plain_profiles():
    names = {p.name for p in H200.profiles if not p.has_media_extensions}
    assert sum({p.profile for p in layout} <= names for layout in TABLE) == 723


@pytest.mark.parametrize(
    "names", [["7g"], ["3g", "4g"], ["2g", "2g", "3g"], ["1g", "1g", "2g", "3g"]]
)
def test_the_published_full_layouts_use_every_slice_of_both_kinds(names):
    compute = {p.name: p.compute_slices for p in H200.profiles}
    assert any(
        sum(p.size for p in layout) == 8 and sum(compute[p.profile] for p in layout) == 7
        for layout in made_of(names)
    )


def test_seven_small_slices_are_possible_and_never_an_eighth():
    assert TABLE.free_beside([]).max_count["1g.18gb"] == 7
    assert TABLE.free_beside(ones(*range(7))).plain == ()


def test_two_of_three_slices_strand_a_compute_slice():
    assert TABLE.free_beside([at(0, "3g.71gb"), at(4, "3g.71gb")]).plain == ()


def test_an_empty_board_offers_every_place_larger_first():
    assert TABLE.free_beside([]).plain[:4] == (
        at(0, "7g.141gb"),
        at(0, "4g.71gb"),
        at(0, "3g.71gb"),
        at(4, "3g.71gb"),
    )


def test_a_small_slice_at_the_start_destroys_the_large_half_and_at_six_only_the_right_one():
    lost = {(p.profile, p.start) for p in TABLE.larger_lost([], at(0, "1g.18gb"))}
    assert lost == {
        ("7g.141gb", 0),
        ("4g.71gb", 0),
        ("3g.71gb", 0),
        ("2g.35gb", 0),
        ("1g.35gb", 0),
    }
    lost = {(p.profile, p.start) for p in TABLE.larger_lost([], at(6, "1g.18gb"))}
    assert lost == {("7g.141gb", 0), ("3g.71gb", 4), ("1g.35gb", 6)}


def test_three_slices_on_the_left_destroy_four_slices_though_they_are_as_large_in_memory():
    assert TABLE.larger_lost([], at(0, "3g.71gb")) == (at(0, "7g.141gb"), at(0, "4g.71gb"))


def test_where_there_is_room_nothing_is_deleted_and_the_place_that_leaves_most_room_is_made():
    assert TABLE.make_room([], "3g.71gb") == LayoutChange((), (at(4, "3g.71gb"),))


def test_one_idle_slice_is_deleted_rather_than_two_and_the_smaller_of_two():
    idle = [*ones(0, 1), at(4, "2g.35gb")]
    assert TABLE.make_room(idle, "3g.71gb").deletes == (at(4, "2g.35gb"),)
    idle = [*ones(0), at(4, "2g.35gb")]
    assert TABLE.make_room(idle, "3g.71gb").deletes == (at(0, "1g.18gb"),)


def test_what_is_held_stays_even_where_deleting_it_would_be_cheaper():
    taken = [*ones(0), at(4, "2g.35gb")]
    change = TABLE.make_room(taken, "3g.71gb", in_use=ones(0))
    assert change == LayoutChange((at(4, "2g.35gb"),), (at(4, "3g.71gb"),))
    assert TABLE.make_room(taken, "3g.71gb", in_use=taken) is None


def test_room_for_two_of_three_slices_clears_both_halves():
    change = TABLE.make_room(ones(0, 6), "3g.71gb", count=2)
    assert change == LayoutChange(tuple(ones(0, 6)), (at(0, "3g.71gb"), at(4, "3g.71gb")))


def test_more_than_the_board_can_ever_have_is_no_change_at_all():
    assert TABLE.make_room([], "4g.71gb", count=2) is None
    assert TABLE.make_room([], "1g.18gb", count=8) is None


def test_where_the_maximum_is_reached_the_idle_one_goes_though_it_is_elsewhere():
    """One media instance a GPU: a second needs no slot of the first, but its turn."""
    idle = at(0, "1g.18gb+me")
    held = [at(1, "1g.18gb")]
    change = TABLE.make_room([idle, *held], "1g.18gb+me", in_use=held)
    assert change is not None and change.deletes == (idle,)


@pytest.mark.parametrize(
    ("taken", "profile", "held", "count"),
    [
        ([], "9g.999gb", [], 1),
        ([], "1g.18gb", [], 0),
        ([], "1g.18gb", ones(0), 1),
        ([Placement(3, 4, "3g.71gb")], "1g.18gb", [], 1),
        ([Placement(0, 2, "2g.10gb")], "1g.18gb", [], 1),
        (ones(2, 2), "1g.18gb", [], 1),
    ],
)
def test_a_question_about_no_layout_of_this_board_is_refused(taken, profile, held, count):
    with pytest.raises(ValueError, match="H200-141GB"):
        TABLE.make_room(taken, profile, in_use=held, count=count)


def test_what_a_place_destroys_is_refused_where_it_cannot_be_made():
    with pytest.raises(ValueError, match="cannot be created beside"):
        TABLE.larger_lost(ones(0), at(0, "3g.71gb"))
    with pytest.raises(ValueError, match="cannot be created beside"):
        TABLE.larger_lost([], Placement(3, 4, "3g.71gb"))


def test_a_layout_that_our_rules_forbid_is_still_answered_by_the_same_rules():
    """A driver that knows better than our table must not stop the planner."""
    odd = [Placement(3, 4, "3g.71gb"), at(0, "1g.18gb")]
    assert not TABLE.is_legal(odd)
    room = TABLE.free_beside(odd)
    assert room.by_profile == {p.name: tuple(free_placements(H200, p, odd)) for p in H200.profiles}
    assert room.max_count["1g.18gb"] == len(room.by_profile["1g.18gb"]) == 2
    overlapping = [at(0, "3g.71gb"), at(0, "1g.18gb"), at(4, "1g.18gb")]
    assert TABLE.make_room(overlapping, "4g.71gb").deletes == (at(0, "1g.18gb"), at(0, "3g.71gb"))


def test_the_same_placement_twice_is_no_layout_and_counts_twice():
    assert not TABLE.is_legal(ones(0, 0))
    twice = [at(0, "3g.71gb")] * 2
    assert TABLE.free_beside(twice).by_profile["2g.35gb"] == ()


def test_an_unknown_profile_is_refused_with_its_name():
    with pytest.raises(ValueError, match=r"H200-141GB has no profile 2g\.10gb"):
        TABLE.free_beside([Placement(0, 2, "2g.10gb")])


def test_a_board_without_mig_has_the_empty_layout_only():
    for board in (known_boards()["L40S-48GB"], unknown_board("Some GPU", 1_024)):
        table = layout_table(board)
        assert list(table) == [()]
        assert table.free_beside([]).plain == ()
        assert table.free_beside([]).room_score == 0


def test_the_table_is_built_once_for_a_board():
    assert layout_table(H200) is TABLE
    discovered = unknown_board("Some GPU", 2_048)
    assert layout_table(discovered) is layout_table(unknown_board("Some GPU", 2_048))


def test_a_discovered_board_under_a_known_key_is_answered_from_its_own_profiles():
    small = dataclasses.replace(H200, profiles=H200.profiles[:1])
    assert len(layout_table(small)) == 2**7
    assert set(layout_table(small).free_beside([]).by_profile) == {"1g.18gb"}


def test_where_compute_slices_run_out_first_they_decide():
    """On no known board do they: there the memory slices are always gone before."""
    narrow = dataclasses.replace(H200, key="narrow", compute_slices=3)
    table = layout_table(narrow)
    for layout in table:
        room = table.free_beside(layout)
        assert is_legal(narrow, layout)
        for profile in narrow.profiles:
            assert list(room.by_profile[profile.name]) == free_placements(narrow, profile, layout)
    assert table.free_beside([]).max_count == {**dict.fromkeys(SIZES, 3), **NARROW}
    change = table.make_room([at(0, "2g.35gb")], "2g.35gb")
    assert change is not None and change.deletes == (at(0, "2g.35gb"),)
    assert not table.is_legal([at(0, "2g.35gb"), at(2, "2g.35gb")])


def test_a_board_with_too_many_layouts_is_answered_one_by_one_and_the_same(monkeypatch):
    monkeypatch.setattr(module, "MAX_LAYOUTS", 100)
    bounded = module.LayoutTable(H200)
    assert not bounded.is_complete and len(bounded) == 0
    for layout in list(TABLE)[::50]:
        assert bounded.is_legal(layout) and is_legal(H200, layout)
        assert bounded.free_beside(layout) == TABLE.free_beside(layout)
        assert bounded.make_room(layout, "3g.71gb") == TABLE.make_room(layout, "3g.71gb")
    assert not bounded.is_legal([at(0, "4g.71gb"), at(0, "3g.71gb")])
