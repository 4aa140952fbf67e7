"""What jobs are not offered of a node's CPU and memory."""

import pytest

from agents.admission.policy import NodePolicy, PolicyError, read_policy
from agents.hardware import Hardware
from agents.host.system_reserve import (
    HostCapacity,
    host_capacity,
    reserved_cpu_milli,
    reserved_memory_mib,
)
from tests.unit.agents.nodes import Machine

LARGE = HostCapacity(cpu_milli=192_000, memory_mib=2_063_000)


def test_by_default_a_large_node_keeps_cpus_and_gigabytes_and_a_small_one_its_least():
    assert NodePolicy().reserve(LARGE) == HostCapacity(3_840, 61_890)
    assert NodePolicy().reserve(HostCapacity(2_000, 16_384)) == HostCapacity(100, 1_024)
    assert NodePolicy().reserve(HostCapacity(0, 512)) == HostCapacity(0, 512), "at most all of it"


@pytest.mark.parametrize(
    ("text", "milli"), [("0", 0), ("4", 4_000), ("0.5", 500), ("10%", 19_200), ("999", 192_000)]
)
def test_cpus_are_a_number_or_a_percentage(text, milli):
    assert reserved_cpu_milli(text, LARGE.cpu_milli) == milli


@pytest.mark.parametrize(
    ("text", "mib"), [("512MiB", 512), ("64GiB", 65_536), ("10%", 206_300), ("9999GiB", 2_063_000)]
)
def test_memory_is_an_amount_or_a_percentage(text, mib):
    assert reserved_memory_mib(text, LARGE.memory_mib) == mib


@pytest.mark.parametrize("key", ["cpu_reserve", "memory_reserve"])
@pytest.mark.parametrize("text", ["", "much", "-1", "5 %", "3TB", "100%", "1.2345"])
def test_a_bad_reserve_stops_the_agent_with_what_to_write(tmp_path, key, text):
    file = tmp_path / "policy.toml"
    file.write_text(f'{key} = "{text}"', "utf-8")
    file.chmod(0o644)
    with pytest.raises(PolicyError, match=f'{key} must be "auto", a percentage'):
        read_policy(file)


def facts(tmp_path, policy, *, simulated=True):
    machine = Machine(tmp_path)
    try:
        return Hardware(
            machine.nvml, machine.runtime, tmp_path, simulated=simulated, policy=policy
        ).facts
    finally:
        machine.nvml.close()


def test_the_portal_is_offered_what_is_left(tmp_path):
    total = host_capacity()
    offered = facts(tmp_path, NodePolicy(cpu_reserve="0.5", memory_reserve="256MiB"))
    assert (offered.cpu_milli, offered.memory_mib) == (
        total.cpu_milli - 500,
        total.memory_mib - 256,
    )


def test_a_simulated_node_keeps_nothing_unless_its_policy_says_so(tmp_path):
    total = host_capacity()
    offered = facts(tmp_path, NodePolicy())
    assert (offered.cpu_milli, offered.memory_mib) == (total.cpu_milli, total.memory_mib)
    assert NodePolicy().reserve(total, simulated=True) == HostCapacity(0, 0)
