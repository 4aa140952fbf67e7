"""Reads the summary of a profiler: it is what a user wrote."""

import pytest

from agents.profiler.hook import MAX_NAME, MAX_OPERATORS
from portal.files.time_profiles import MAX_BYTES, TimeCategory, read_profile
from tests.support.time_profiles import SUMMARY, a_summary

OPERATOR = SUMMARY["operators"][0]


def test_what_the_hook_writes_is_read():
    profile = read_profile(a_summary())
    assert profile is not None
    assert (profile.steps, profile.world, profile.window_us) == (10, 2, 2_000_000)
    assert profile.times_us[TimeCategory.COMMUNICATION] == 600_000
    assert [operator.name for operator in profile.operators] == ["gemm", "nccl <b>"]


@pytest.mark.parametrize(
    "changed",
    [
        {"version": 2},
        {"version": None},
        {"window_us": 0},
        {"window_us": 10**30},
        {"compute_us": -1},
        {"compute_us": True},
        {"compute_us": 1_000_000.0},
        # The parts do not make up the window.
        {"idle_us": 400_000},
        {"loading_us": 2_000_001},
        {"steps": "10"},
        {"torch": "x" * 200},
        {"device": 7},
        {"operators": {}},
        {"operators": [OPERATOR] * (MAX_OPERATORS + 1)},
        {"operators": [OPERATOR | {"category": "magic"}]},
        {"operators": [OPERATOR | {"name": "x" * (MAX_NAME + 1)}]},
        {"operators": [7]},
    ],
)
def test_anything_else_is_none(changed):
    assert read_profile(a_summary(**changed)) is None


@pytest.mark.parametrize(
    "content",
    [
        *(b"", b"7", b"null", b"[]", b"\xff\xfe", b'{"version": 1}', b"[" * MAX_BYTES),
        b'{"version": 1, "window_us": ' + b"9" * 60_000 + b"}",
        a_summary() + b" " * MAX_BYTES,
    ],
)
def test_what_is_no_summary_is_none(content):
    assert read_profile(content) is None


def test_letters_that_control_a_terminal_become_blanks():
    profile = read_profile(a_summary(device="H200\x1b[2J\n"))
    assert profile.device == "H200 [2J "


@pytest.mark.parametrize(
    ("times", "said"),
    [
        ({}, ["Communication that no computing hides takes 30\u00a0%"]),
        ({"communication_us": 0, "compute_us": 1_600_000}, ["Nothing stands out: the GPU"]),
        ({"copy_us": 300_000, "idle_us": 100_000}, ["Communication", "Copies take 15\u00a0%"]),
        (
            {"idle_us": 900_000, "compute_us": 400_000},
            ["The GPU had nothing to do for 45\u00a0%", "Communication"],
        ),
        # What waits for the data is not searched for twice.
        (
            {"idle_us": 900_000, "compute_us": 400_000, "loading_us": 800_000},
            ["The program waited for its data loader for 40\u00a0%", "Communication"],
        ),
        ({"by_device": False}, ["No GPU was used", "Communication"]),
    ],
)
def test_hints_name_the_causes(times, said):
    hints = [hint.text for hint in read_profile(a_summary(**times)).hints]
    assert len(hints) == len(said)
    assert all(hint.startswith(start) for hint, start in zip(hints, said, strict=True))
