"""Reads what a program of nccl-tests prints. Pure; the text may be anything.

A row of its table is size, count, type, redop, in newer versions root, and then time, algbw, busbw
and what was wrong: twice, out of place and in place. Source: `src/util.cu` of nccl-tests, and
`src/common.cu` for versions before 2.11, whose last column is the largest error instead.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from agents.launchers.pair_rounds import TITLE as PAIR_TITLE
from agents.launchers.ring_all_reduce import TITLE as RING_TITLE

# Of a table that Tessera asks for, there are far fewer; of a line, far less is read.
MAX_ROWS, MAX_LINE = 1_000, 400
# Faster than any link: not a measurement.
MAX_GB_PER_SECOND = 100_000
COUNT = re.compile(r"[0-9]{1,18}", re.ASCII)
NUMBER = re.compile(r"[0-9]{1,12}(\.[0-9]{1,6})?(e[+-]?[0-9]{1,2})?", re.ASCII)
WORD = re.compile(r"[a-z0-9_]{1,16}", re.ASCII)
HEADER = re.compile(r"#?\s*size\s+count\s+type\s")
AVERAGE = re.compile(r"#?\s*Avg bus bandwidth\s*:\s*(\S+)")
OUT_OF_BOUNDS = re.compile(r"#?\s*Out of bounds values\s*:\s*([0-9]{1,18})\s+(OK|FAILED)")
FAILURE = re.compile(r"Test (NCCL|CUDA|MPI) failure")
# Words of a row before its timings, with and without the root; and of one timing.
LEAD, OLD_LEAD, TIMING = 5, 4, 4
NOT_CHECKED = "N/A"


@dataclass(frozen=True, slots=True)
class NcclTiming:
    """One collective of one size. Bandwidths are in GB/s (10^9 bytes)."""

    microseconds: float
    algbw: float
    busbw: float
    wrong: int | None
    """Wrong elements; None where they were not counted."""


@dataclass(frozen=True, slots=True)
class NcclTestRow:
    size_bytes: int
    count: int
    element_type: str
    redop: str
    out_of_place: NcclTiming
    in_place: NcclTiming

    @property
    def busbw(self) -> float:
        """The better of the two."""
        return max(self.out_of_place.busbw, self.in_place.busbw)


@dataclass(frozen=True, slots=True)
class NcclTestOutput:
    """The last table of a text."""

    rows: tuple[NcclTestRow, ...] = ()
    average_busbw: float | None = None
    """None if the program did not come to its end."""
    wrong_values: int = 0
    errors: tuple[str, ...] = ()
    """Lines in which the program says that it failed."""
    is_ring: bool = False
    """It is no result of NCCL, but of the program that stands in for it on simulated nodes."""

    @property
    def is_complete(self) -> bool:
        return self.average_busbw is not None and bool(self.rows)

    @property
    def is_final(self) -> bool:
        """More of it does not come."""
        return self.is_complete or bool(self.wrong_values or self.errors)

    @property
    def best(self) -> NcclTestRow | None:
        """The row with the highest busbw: what the network can do. Small messages are slow in any
        network, so the average says less."""
        return max(self.rows, key=lambda row: row.busbw, default=None)


def read_nccl_output(text: str) -> NcclTestOutput:
    """Lines of other programs between those of the table are passed over."""
    rows: list[NcclTestRow] = []
    errors: list[str] = []
    average, wrong, is_ring = None, 0, False
    for line in text.splitlines():
        line = line[:MAX_LINE].strip()
        if HEADER.match(line):
            rows, average, wrong = [], None, 0
        elif found := AVERAGE.match(line):
            average = _number(found[1])
        elif line == RING_TITLE:
            is_ring = True
        elif found := OUT_OF_BOUNDS.match(line):
            wrong = int(found[1]) or int(found[2] == "FAILED")
        elif FAILURE.search(line):
            errors.append(line)
        elif len(rows) < MAX_ROWS and (row := _row(line.split())):
            rows.append(row)
    counted = sum(each.wrong or 0 for row in rows for each in (row.out_of_place, row.in_place))
    told = tuple(errors[:MAX_ROWS])
    return NcclTestOutput(tuple(rows), average, max(wrong, counted), told, is_ring)


def read_pair_outputs(text: str) -> dict[str, NcclTestOutput]:
    """By the name that `pair_rounds` gives each pair. Empty if it printed none."""
    _, *parts = re.split(rf"^{re.escape(PAIR_TITLE)} (\S+)$", text, flags=re.MULTILINE)
    return {
        name: read_nccl_output(table) for name, table in zip(parts[::2], parts[1::2], strict=True)
    }


def _row(words: Sequence[str]) -> NcclTestRow | None:
    has_root = len(words) >= LEAD + 2 * TIMING
    lead = LEAD if has_root else OLD_LEAD
    if len(words) < lead + 2 * TIMING:
        return None
    size, count, element_type, redop = words[:OLD_LEAD]
    if not (COUNT.fullmatch(size) and COUNT.fullmatch(count)):
        return None
    if not (WORD.fullmatch(element_type) and WORD.fullmatch(redop)):
        return None
    out_of_place = _timing(words[lead : lead + TIMING], counts_wrong=has_root)
    in_place = _timing(words[lead + TIMING : lead + 2 * TIMING], counts_wrong=has_root)
    if out_of_place is None or in_place is None:
        return None
    return NcclTestRow(int(size), int(count), element_type, redop, out_of_place, in_place)


def _timing(words: Sequence[str], *, counts_wrong: bool) -> NcclTiming | None:
    time, algbw, busbw = map(_number, words[:3])
    if time is None or algbw is None or busbw is None or max(algbw, busbw) > MAX_GB_PER_SECOND:
        return None
    found = _number(words[3])
    if found is None and words[3] != NOT_CHECKED:
        return None
    wrong = int(found) if counts_wrong and found is not None else None
    return NcclTiming(time, algbw, busbw, wrong)


def _number(word: str) -> float | None:
    return float(word) if NUMBER.fullmatch(word) else None
