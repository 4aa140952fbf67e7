"""MIG profiles and their placements: consistent in themselves, and those of boards.json."""

import pytest

from agents.contract.boards import known_boards
from tests.gpu.report import is_geometry


@pytest.fixture
def profiles(gpu):
    if not gpu["profiles"]:
        pytest.skip("the driver tells no MIG profiles of this GPU, or not while MIG is off")
    return gpu["profiles"]


def test_no_two_profiles_share_an_id_a_query_index_or_a_name(profiles):
    for name in ("id", "query_index", "name"):
        found = [profile[name] for profile in profiles]
        assert len(set(found)) == len(found)


def test_each_profile_fits_as_often_as_the_driver_says_it_may_exist(profiles):
    for profile in profiles:
        ends, free = [], 0
        for start, size in sorted(profile["places"], key=lambda place: place[0] + place[1]):
            if start >= free:
                free = start + size
                ends.append(free)
        assert len(profile["places"]) == 0 or len(ends) >= profile["max_instances"]


def test_no_more_room_is_left_than_instances_may_exist(profiles):
    rooms = [(p["remaining"], p["max_instances"]) for p in profiles if p["remaining"] is not None]
    assert all(0 <= room <= most for room, most in rooms)


def test_the_geometry_is_that_of_our_table(gpu, profiles, differences):
    if not gpu["board"]:
        pytest.skip(f"{gpu['product_name']} is not in boards.json")
    mine = f"gpus.{gpu['index']}."
    wrong = [str(d) for d in differences if is_geometry(d) and d.where.startswith(mine)]
    assert wrong == []


def test_every_placement_that_the_driver_offers_is_one_that_the_planner_uses(gpu, profiles):
    if not gpu["board"]:
        pytest.skip(f"{gpu['product_name']} is not in boards.json")
    board = known_boards()[gpu["board"]]
    for profile in profiles:
        known = board.profile_by_id(profile["id"])
        assert known is not None, profile["name"]
        ours = [[start, known.memory_slices] for start in sorted(known.starts)]
        assert profile["places"] in ([], ours), profile["name"]
