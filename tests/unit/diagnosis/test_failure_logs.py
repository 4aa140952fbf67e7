"""Logs of programs that really failed get their cause: `tests/support/failure_logs/`."""

import pytest

from portal.diagnosis.diagnose import diagnose
from portal.jobs.failure_causes import Confidence
from tests.support.failure_logs import failure_logs

LOGS = failure_logs()
# They say too little: their end is told by its exit code alone.
UNDECIDED = {"disk_full_tar"}


def test_there_are_enough_logs_and_most_are_of_programs_that_ran():
    real = [log for log in LOGS if log.fields["made"].startswith("make.py")]
    assert len(LOGS) >= 80
    assert len(real) >= 45
    assert all(log.fields["made"] for log in LOGS)


@pytest.mark.parametrize("log", [pytest.param(log, id=log.name) for log in LOGS])
def test_a_failure_log_gets_its_cause(log):
    finding = diagnose(log.end)
    if log.name in UNDECIDED:
        assert finding.confidence is Confidence.LIKELY
        return
    assert finding.cause == log.fields["cause"], finding
    assert finding.sentence.text


def test_no_more_than_one_in_twenty_is_undecided():
    assert len(UNDECIDED) <= len(LOGS) / 20


@pytest.mark.parametrize(
    ("name", "headline"),
    [
        ("torch1_out_of_memory", "CUDA ran out of memory: it tried to allocate 2.00 GiB"),
        ("python_launcher", "RuntimeError: Sizes of tensors must match except in dimension 1."),
        ("python_handled_before", "AssertionError: loss is nan at step 599"),
        ("missing_module", "The image has no Python module flash_attn"),
        ("command_not_found_sh", "The image has no command torchrun"),
        ("docker_no_command", "The image has no command torchrun"),
        (
            "nccl_watchdog",
            "NCCL timed out: rank 0 waited 600 s for the others in ALLREDUCE",
        ),
    ],
)
def test_the_headline_says_what_failed(name, headline):
    (log,) = (log for log in LOGS if log.name == name)
    assert diagnose(log.end).sentence.text == headline


def test_of_a_gang_what_broke_goes_before_what_the_others_noticed():
    (log,) = (log for log in LOGS if log.name == "gang_out_of_memory_behind_nccl")
    finding = diagnose(log.end)
    assert finding.line.rank == 3
    assert "OutOfMemoryError" in finding.line.text
