"""What the suite compares, and how it names a difference."""

from inspect import isfunction

import pynvml
import pytest

from tests.gpu import gpm
from tests.gpu.questions import FACTS, PROBES, SETTINGS, TELEMETRY, answer
from tests.gpu.report import (
    GEOMETRY,
    Difference,
    is_geometry,
    lines,
    profile_differences,
)

QUESTIONS = {**FACTS, **TELEMETRY, **SETTINGS, **PROBES}
CODES = {name: question.__code__ for name, question in QUESTIONS.items()} | {
    function.__name__: function.__code__ for function in vars(gpm).values() if isfunction(function)
}
OF_PYNVML = ("nvmlDevice", "nvmlGpm", "NVML_", "c_nvml", "nvmlMemory")
A_PROFILE = {
    "id": 19,
    "query_index": 0,
    "name": "1g.18gb",
    "compute_slices": 1,
    "memory_mib": 16_384,
    "multiprocessors": 16,
    "max_instances": 7,
    "places": [[0, 1], [1, 1]],
}


def a_profile(**other) -> dict:
    return {**A_PROFILE, **other}


def test_equal_profiles_differ_in_nothing():
    assert profile_differences("gpus.0", [a_profile()], [a_profile()]) == []


@pytest.mark.parametrize("name", [*A_PROFILE])
def test_a_profile_is_compared_in_everything_that_we_know_of_it(name):
    real = a_profile(**{name: "other"})
    found = profile_differences("gpus.0", [real], [a_profile()])
    assert found
    assert all(is_geometry(d) == (name in GEOMETRY) for d in found)


def test_a_profile_that_one_side_has_not_is_named_by_its_id():
    (found,) = profile_differences("gpus.0", [], [a_profile()])
    assert (found.where, found.real) == ("gpus.0.profiles.19", None)
    assert is_geometry(found)


def test_gpus_that_differ_alike_are_one_line():
    reading = {
        "gpus": [{"product_name": "NVIDIA H200"}] * 2,
        "versions": {"driver": "580.95.05"},
    }
    found = [Difference(f"gpus.{n}.facts.brand", 5, None) for n in (0, 1)]
    said = lines(reading, found)
    assert said[0] == "2 x NVIDIA H200, driver 580.95.05."
    assert said[1:] == [
        "2 differences from the simulated board, 1 kinds:",
        "  2 x gpus.*.facts.brand: real 5, simulated None",
    ]


@pytest.mark.parametrize("name", [*CODES])
def test_every_question_is_one_that_pynvml_can_ask(name):
    """Or a word misspelt here would pass for a driver that is too old."""
    asked = [word for word in CODES[name].co_names if word.startswith(OF_PYNVML)]
    assert [word for word in asked if not hasattr(pynvml, word)] == []


def test_only_pynvml_itself_may_lack_a_function():
    assert answer(lambda gpu: pynvml.nvmlDeviceGetNothing(gpu), None) == {
        "code": "FUNCTION_NOT_FOUND"
    }
    with pytest.raises(AttributeError):
        answer(lambda gpu: gpu.nothing, object())
