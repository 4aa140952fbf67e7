"""How the GPUs are joined: what must hold on every machine, whatever its wiring."""

import pynvml
import pytest

from agents.nvml.session import Nvml
from agents.nvml.wiring import CAPS


@pytest.fixture
def handles(reading):
    nvml = Nvml()
    yield [pynvml.nvmlDeviceGetHandleByUUID(gpu["uuid"]) for gpu in reading["gpus"]]
    nvml.close()


@pytest.fixture
def wiring(gpu):
    """Without it, `test_nothing_that_the_agent_reads_is_refused` has the driver's words."""
    assert gpu["wiring"] is not None, "the agent could not read how the GPUs are joined"
    return gpu["wiring"]


def test_rates_are_the_same_in_both_directions_and_none_to_itself(reading):
    matrix = reading["mb_per_second"]
    assert matrix == [list(row) for row in zip(*matrix, strict=True)]
    assert all(row[index] == 0 for index, row in enumerate(matrix))


def test_every_pair_is_told_once(reading):
    count = len(reading["gpus"])
    assert len(reading["pairs"]) == count * (count - 1) // 2


def test_the_driver_says_the_same_of_a_pair_from_either_end(handles):
    for index, one in enumerate(handles):
        for other in handles[:index]:
            ask = pynvml.nvmlDeviceGetTopologyCommonAncestor
            assert ask(one, other) == ask(other, one)
            for cap in CAPS:
                ask = pynvml.nvmlDeviceGetP2PStatus
                assert ask(one, other, cap) == ask(other, one, cap)


def test_near_cpus_and_memory_are_told(wiring):
    assert wiring["cpus"]
    assert wiring["numa_nodes"]


def test_links_are_numbered_once_and_name_their_other_end(gpu, wiring):
    links = wiring["nvlinks"]
    assert len({link["number"] for link in links}) == len(links)
    assert all(link["generation"] for link in links)
    assert all(link["remote_bus_id"] != gpu["pci_bus_id"] for link in links)


def test_the_slot_has_a_width_and_a_generation_that_we_know(wiring):
    assert wiring["pcie_generation"] in range(1, 8)
    assert wiring["pcie_width"] in (1, 2, 4, 8, 16)


def test_gpus_of_an_nvswitch_domain_are_all_joined(reading):
    for domain in reading["nvswitch_domains"]:
        for one in domain:
            for other in (g for g in domain if g > one):
                assert reading["pairs"][f"{one}-{other}"]["nvlinks"] > 0
