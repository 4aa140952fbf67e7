"""The table of XIDs: what each means for work, with its source, on paper as in the code."""

from pathlib import Path

import pytest

from agents.health.xids import (
    DEVICE_PLUGIN,
    NO_SOURCE,
    RESTART_APP,
    XIDS,
    XidVerdict,
    xid_by_number,
    xids_table,
)

DOCS = Path(__file__).parents[3] / "docs" / "health.md"


def test_the_documented_table_is_the_codes():
    assert xids_table() in DOCS.read_text("utf-8"), "put xids.table() into docs/health.md"


def test_every_line_has_a_sentence_and_a_source():
    assert all(xid.sentence and xid.source for xid in XIDS.values())
    assert all(number == xid.number for number, xid in XIDS.items())


def test_what_a_program_does_wrong_is_no_fault_of_its_gpu():
    ignored = {n for n, xid in XIDS.items() if xid.source == DEVICE_PLUGIN}
    assert ignored == {13, 31, 43, 45, 68, 109}
    assert not any(XIDS[n].faults_gpu or XIDS[n].ends_work for n in ignored)


@pytest.mark.parametrize("number", [8, 11, 32, 39, 69, 80, 82, 84, 86, 98, 105, 126, 139])
def test_what_nvidia_says_to_restart_the_program_for_drains_no_gpu(number):
    xid = xid_by_number(number)
    assert xid.source == RESTART_APP
    assert not (xid.faults_gpu or xid.ends_work)


@pytest.mark.parametrize(
    ("number", "faults_gpu", "ends_work"),
    [(94, False, True), (63, True, False), (48, True, True), (95, True, True), (79, True, True)],
)
def test_a_fault_takes_the_gpu_the_work_or_both(number, faults_gpu, ends_work):
    xid = xid_by_number(number)
    assert (xid.faults_gpu, xid.ends_work) == (faults_gpu, ends_work)


def test_an_unknown_xid_drains_and_kills_nothing():
    unknown = xid_by_number(987)
    assert (unknown.number, unknown.verdict) == (987, XidVerdict.DRAIN)
    assert (unknown.ends_work, unknown.source) == (False, NO_SOURCE)
