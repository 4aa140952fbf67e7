"""What the portal believes of a board that it does not know: nothing impossible or endless."""

from dataclasses import replace

import pytest

from agents.contract.boards import known_boards, unknown_board
from agents.contract.discovered_boards import MAX_PLACEMENTS, observed_profile, plausible_profiles
from agents.contract.documents import ObservedProfile
from agents.contract.layouts import layout_table

GOOD = ObservedProfile("1g.40gb", 19, 0, 1, 1, 40_000, 20, 7, (0, 1, 2, 3, 4, 5, 6))


@pytest.mark.parametrize(
    "key", [key for key, board in known_boards().items() if board.supports_mig]
)
def test_every_board_of_the_table_would_be_believed(key):
    profiles = known_boards()[key].profiles
    names = [
        (p.name, p.starts, p.memory_slices)
        for p in plausible_profiles(map(observed_profile, profiles))
    ]
    assert names == [(p.name, p.starts, p.memory_slices) for p in profiles]


@pytest.mark.parametrize(
    "wrong",
    [
        {"starts": ()},
        {"starts": (-1, 0)},
        {"starts": (0, 0)},
        {"starts": (1, 0)},
        {"starts": (0, 2**40)},
        {"size": 64},
        {"name": ""},
    ],
    ids=str,
)
def test_what_no_gpu_can_have_is_left_out(wrong):
    assert plausible_profiles([replace(GOOD, **wrong)]) == ()
    (kept,) = plausible_profiles([replace(GOOD, **wrong), GOOD, GOOD])
    assert kept.name == "1g.40gb"
    assert layout_table(unknown_board("X", 1, (kept,))).free_beside([]).max_count == {"1g.40gb": 7}


def test_a_board_with_more_placements_than_any_is_given_whole():
    many = [replace(GOOD, name=f"{n}g.40gb") for n in range(MAX_PLACEMENTS // 7 + 1)]
    assert plausible_profiles(many) == ()
    assert len(plausible_profiles(many[:-1])) == len(many) - 1
