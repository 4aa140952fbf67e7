"""The table of nccl-tests: of new and old versions, with wrong sums, cut off, and made up."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from portal.node_pairs.nccl_output import (
    MAX_ROWS,
    NcclTestOutput,
    NcclTestRow,
    NcclTiming,
    read_nccl_output,
)
from tests.support.nccl_outputs import HEADER, OLD_ONE_NODE, TWO_NODES, a_table


def test_a_run_over_two_nodes_is_read_column_by_column():
    found = read_nccl_output(TWO_NODES)
    assert (len(found.rows), found.average_busbw, found.wrong_values) == (7, 70.742, 0)
    assert found.is_complete and not found.errors
    assert found.rows[2] == NcclTestRow(
        size_bytes=1_048_576,
        count=262_144,
        element_type="float",
        redop="sum",
        out_of_place=NcclTiming(203.2, 5.16, 9.68, 0),
        in_place=NcclTiming(207.2, 5.06, 9.49, 0),
    )
    assert found.best and (found.best.size_bytes, found.best.busbw) == (8 << 30, 338.82)


def test_an_old_version_has_no_root_and_an_error_in_place_of_a_count():
    found = read_nccl_output(OLD_ONE_NODE)
    assert [row.size_bytes for row in found.rows] == [8, 268_435_456]
    assert found.rows[1].out_of_place == NcclTiming(12_646, 21.23, 37.15, None)
    assert (found.average_busbw, found.wrong_values) == (18.58, 0)


def test_wrong_sums_are_counted_from_the_rows_and_from_the_last_line():
    assert read_nccl_output(a_table(90, wrong=3)).wrong_values == 6
    assert read_nccl_output("# Out of bounds values : 0 FAILED").wrong_values == 1
    only_rows = a_table(90, wrong=3, average=False).replace("# Out of bounds", "# out")
    assert read_nccl_output(only_rows).wrong_values == 6


def test_values_that_were_not_checked_are_no_wrong_ones():
    found = read_nccl_output(a_table(90).replace("      0", "    N/A"))
    assert found.rows[0].out_of_place.wrong is None
    assert found.wrong_values == 0


def test_a_run_that_failed_is_not_complete_and_names_what_it_said():
    line = "rank-1: Test NCCL failure common.cu:958 'unhandled system error'"
    found = read_nccl_output(a_table(90, average=False) + line)
    assert (found.is_complete, found.errors) == (False, (line,))
    assert not read_nccl_output("# Avg bus bandwidth    : 0").is_complete
    assert read_nccl_output("").best is None


def test_lines_of_others_between_the_rows_are_passed_over():
    lines = TWO_NODES.splitlines()
    noisy = "\r\n".join(f"{line}\nrank-0:1:1 [0] NCCL INFO Channel 00 : 0 -> 1" for line in lines)
    assert read_nccl_output(noisy) == read_nccl_output(TWO_NODES)


def test_only_the_last_table_counts():
    assert read_nccl_output(a_table(900, wrong=1) + a_table(40)) == read_nccl_output(a_table(40))


@pytest.mark.parametrize(
    "row",
    [
        "8 2 float sum -1 nan 0.0 0.0 0 1.0 0.0 0.0 0",
        "8 2 float sum -1 1.0 inf 0.0 0 1.0 0.0 0.0 0",
        "8 2 float sum -1 1.0 0.0 -4 0 1.0 0.0 0.0 0",
        "8 2 float sum -1 1.0 0.0 1_0 0 1.0 0.0 0.0 0",
        "8 2 float sum -1 1.0 0.0 1e99 0 1.0 0.0 0.0 0",
        "8 2 float sum -1 1.0 0.0 999999 0 1.0 0.0 0.0 0",
        "٨ 2 float sum -1 1.0 0.0 0.0 0 1.0 0.0 0.0 0",
        "8 2 <script> sum -1 1.0 0.0 0.0 0 1.0 0.0 0.0 0",
        "8 2 float sum -1 1.0 0.0 0.0 0",
        f"{'9' * 40} 2 float sum -1 1.0 0.0 0.0 0 1.0 0.0 0.0 0",
    ],
)
def test_what_is_no_measurement_is_no_row(row):
    assert read_nccl_output(HEADER + row).rows == ()


def test_a_huge_text_makes_few_rows():
    row = "8 2 float sum -1 1.0 0.0 5.0 0 1.0 0.0 0.0 0\n"
    assert len(read_nccl_output(HEADER + row * (MAX_ROWS + 5)).rows) == MAX_ROWS


@given(st.text(max_size=400) | st.text(alphabet="0123456789 .-e#Avgbus:\n", max_size=400))
def test_any_text_is_read(text):
    assert isinstance(read_nccl_output(HEADER + text), NcclTestOutput)
