"""What goes up and down: a number that can be, or a refusal that means "not measurable here"."""

import pytest

from tests.gpu.questions import SUCCESS, TELEMETRY

NOT_MEASURABLE = {"NOT_SUPPORTED", "NO_PERMISSION", "FUNCTION_NOT_FOUND"}
# The agent's inventory cannot do without them.
NEEDED = ("memory_mib", "temperature_c", "power_mw", "compute_processes")
BOUNDS = {
    "temperature_c": (0, 120),
    "power_mw": (1, 2_000_000),
    "power_limit_mw": (1, 2_000_000),
    "utilization_percent": (0, 100),
    "sm_clock_mhz": (0, 5_000),
    "memory_clock_mhz": (0, 20_000),
    "performance_state": (0, 32),
    "gpm_activity_percent": (0, 100),
    "memory_v2_reserved_mib": (0, 1 << 20),
    "energy_mj": (0, 1 << 63),
    "nvlink_received_kib": (0, 1 << 63),
    "uncorrected_ecc_errors": (0, 1 << 63),
}


@pytest.mark.parametrize("name", list(TELEMETRY))
def test_a_measurement_is_answered_or_refused_as_not_measurable(gpu, name):
    assert gpu["telemetry"][name]["code"] in {SUCCESS, *NOT_MEASURABLE}


@pytest.mark.parametrize("name", NEEDED)
def test_what_the_agent_cannot_do_without_is_answered(gpu, name):
    assert gpu["telemetry"][name]["code"] == SUCCESS


@pytest.mark.parametrize("name", list(BOUNDS))
def test_a_measurement_is_one_that_can_be(gpu, name):
    told = gpu["telemetry"][name]
    if told["code"] != SUCCESS:
        pytest.skip(f"{name} is not measurable here: {told['code']}")
    low, high = BOUNDS[name]
    assert low <= told["value"] <= high


def test_no_more_memory_is_used_than_there_is(gpu):
    assert 0 <= gpu["telemetry"]["memory_mib"]["value"] <= gpu["memory_mib"]


@pytest.fixture
def has_gpm(gpu) -> bool:
    told = gpu["facts"]["gpm_supported"]
    if told["code"] != SUCCESS:
        pytest.skip(f"the driver does not know GPM: {told['code']}")
    return bool(told["value"])


def test_activity_is_measured_by_gpm_exactly_where_the_gpu_says_that_it_has_it(gpu, has_gpm):
    if gpu["mig_current"]:
        pytest.skip("MIG is on: GPM measures the instances")
    measured = gpu["telemetry"]["gpm_activity_percent"]["code"]
    if measured == "NO_PERMISSION":
        pytest.skip("this user may not read performance counters")
    assert (measured == SUCCESS) == has_gpm


def test_activity_of_every_instance_is_measured_by_gpm_where_the_gpu_has_it(gpu, has_gpm):
    seen = {str(one["instance_id"]) for one in gpu["instances"] if one["uuid"]}
    if not (seen and has_gpm):
        pytest.skip("there is no instance whose activity this GPU measures")
    told = gpu["telemetry"]["gpm_activity_of_instances"]
    assert told["code"] == SUCCESS
    assert set(told["value"]) == seen
    assert all(0 <= percent <= 100 for percent in told["value"].values())


def test_utilization_of_a_gpu_in_mig_mode_is_not_measurable(gpu):
    """nvml.h, nvmlDeviceGetUtilizationRates: not supported on MIG-enabled GPUs."""
    if not gpu["mig_current"]:
        pytest.skip("MIG is off")
    assert gpu["telemetry"]["utilization_percent"]["code"] == "NOT_SUPPORTED"
