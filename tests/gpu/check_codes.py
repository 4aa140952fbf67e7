"""Calls that are wrong, or need MIG or root, are refused with a code that the agent tells apart."""

import pytest

from agents.nvml.errors import NvmlCode, NvmlFailure
from agents.nvml.processes import gpu_processes
from agents.nvml.session import Nvml
from tests.gpu.questions import NOBODY, PROBES

# NVML's names of the agent's codes are the same words; these two come for functions, not for GPUs.
APART = {code.upper() for code in NvmlCode} | {"GPU_IS_LOST", "FUNCTION_NOT_FOUND", "SUCCESS"}
# By the notes in nvml.h. Which of them comes is up to the driver's age, to MIG and to root.
NO_SUCH_THING = {"NOT_FOUND", "INVALID_ARGUMENT", "NOT_SUPPORTED", "NO_PERMISSION"}
WRONG = {
    "uuid_of_nobody": {"NOT_FOUND", "INVALID_ARGUMENT"},
    "index_beyond_the_last": {"INVALID_ARGUMENT"},
    "profile_beyond_the_last": NO_SUCH_THING,
    "places_of_no_profile": NO_SUCH_THING,
    "instances_of_no_profile": NO_SUCH_THING,
    "room_for_no_profile": NO_SUCH_THING,
    "instance_of_no_id": NO_SUCH_THING,
    "mig_device_beyond_the_last": NO_SUCH_THING,
    "nvlink_beyond_the_last": NO_SUCH_THING,
}


@pytest.mark.parametrize("name", list(PROBES))
def test_a_code_is_one_that_the_agent_tells_apart(gpu, name):
    assert gpu["probes"][name] in APART - {"OTHER"}


@pytest.mark.parametrize("name", list(WRONG))
def test_what_is_not_there_is_refused(gpu, name):
    assert gpu["probes"][name] in WRONG[name]


def test_instances_can_only_be_asked_for_while_mig_is_on(gpu):
    if gpu["mig_current"]:
        pytest.skip("MIG is on")
    # An H200 with driver 580 looks first for the instance, and only then at the mode.
    refusals = {"NOT_SUPPORTED", "NO_PERMISSION", "NOT_FOUND"}
    assert gpu["probes"]["instance_of_no_id"] in refusals


def test_the_agents_own_words_for_a_gpu_that_nobody_has(reading):
    nvml = Nvml()
    try:
        with pytest.raises(NvmlFailure) as caught:
            gpu_processes(NOBODY)
    finally:
        nvml.close()
    assert caught.value.code in (NvmlCode.NO_SUCH_DEVICE, NvmlCode.INVALID_ARGUMENT)
    assert NOBODY in str(caught.value)
