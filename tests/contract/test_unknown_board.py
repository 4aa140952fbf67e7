"""A board that no table has: its MIG profiles are what the driver tells, and serve to carve it."""

from dataclasses import replace

import pytest

from agents.contract.boards import known_boards
from agents.contract.layouts import layout_table
from agents.facts import gpus
from agents.nvml import profiles
from agents.nvml.profiles import ProfileDiscovery
from tests.contract.drivers import WITH_MIG, WITHOUT_MIG, simulated
from tests.support.carving import Carving

PLAIN = ("name", "id", "query_index", "compute_slices", "memory_slices", "memory_mib", "starts")


@pytest.fixture(autouse=True)
def without_a_table(monkeypatch):
    """As if NVIDIA had made the board yesterday."""
    for reader in (gpus, profiles):
        monkeypatch.setattr(reader, "board_named", lambda *_: None)


def planning_profiles(board):
    """Profiles by what planning needs of them."""
    return {tuple(getattr(profile, name) for name in PLAIN) for profile in board.profiles}


@pytest.mark.parametrize("key", WITH_MIG)
def test_what_the_driver_tells_of_a_board_is_what_its_table_says(key, tmp_path):
    with simulated(tmp_path / "driver.json", key) as node:
        node.nvml.set_mig_mode(node.gpu, on=True)
        found = ProfileDiscovery().with_profiles(node.nvml.devices())[0].board
    table = known_boards()[key]
    assert found.key == table.product_names[0]
    assert planning_profiles(found) == planning_profiles(table)
    shape = (table.memory_slices, table.compute_slices)
    assert (found.memory_slices, found.compute_slices) == shape
    twin = replace(table, key=found.key, profiles=found.profiles)
    assert layout_table(found).free_beside([]) == layout_table(twin).free_beside([])


def test_profiles_that_are_told_only_while_mig_is_on_are_kept_and_asked_for_until_then(tmp_path):
    discovery = ProfileDiscovery()
    with simulated(tmp_path / "driver.json", "A100-40GB") as node:
        assert not discovery.with_profiles(node.nvml.devices())[0].board.supports_mig
        node.nvml.set_mig_mode(node.gpu, on=True)
        told = discovery.with_profiles(node.nvml.devices())[0].discovered
        node.nvml.set_mig_mode(node.gpu, on=False)
        assert told and discovery.with_profiles(node.nvml.devices())[0].discovered == told


def test_a_board_without_mig_is_given_whole(tmp_path):
    with simulated(tmp_path / "driver.json", WITHOUT_MIG) as node:
        board = ProfileDiscovery().with_profiles(node.nvml.devices())[0].board
    assert (board.supports_mig, board.memory_slices) == (False, 1)


@pytest.fixture
def agent(tmp_path):
    agent = Carving(tmp_path)
    yield agent
    agent.end()


def test_an_agent_carves_an_unknown_board_and_tells_its_profiles(agent):
    agent.wish(("2g.35gb", 2, 2), ("3g.71gb", 4, 4))
    assert sorted(agent.slices()) == [("2g.35gb", 2), ("3g.71gb", 4)]
    (gpu,) = agent.reported.gpus
    assert gpu.board == "NVIDIA H200"
    assert {p.name for p in gpu.profiles} > {"1g.18gb", "2g.35gb", "3g.71gb"}
    agent.wish(("4g.71gb", 4, 4))
    assert agent.problems() == ["illegal_layout"]
