"""Metrics files of jobs: read by offset, whatever the job writes or puts in their place."""

import json
import os
from collections import Counter

import pytest

from agents.contract.codec import decode, encode
from agents.contract.errors import ContractErrorCode
from agents.contract.job_metrics import (
    MAX_BATCH_POINTS,
    MAX_METRIC_NAMES,
    MAX_SERIES_POINTS,
    MetricsBatch,
    MetricsResult,
    SkipReason,
)
from agents.job_metrics import files as files_module
from agents.job_metrics.files import MetricsFiles
from agents.job_metrics.lines import MAX_LINE_BYTES, MetricPoint, read_line


@pytest.fixture
def file(tmp_path):
    (tmp_path / "r1").mkdir()
    return tmp_path / "r1" / "metrics.jsonl"


@pytest.fixture
def files(tmp_path):
    return MetricsFiles(lambda replica: tmp_path / replica / "metrics.jsonl")


def line(step, value, name="loss") -> bytes:
    return json.dumps({"step": step, "name": name, "value": value}).encode() + b"\n"


def read(files, *, is_ended=False) -> MetricsBatch | None:
    """One round, as it goes on the wire and is read there."""
    files.read({"r1": is_ended})
    batches = files.due()
    return decode(MetricsBatch, encode(batches[0].on_the_wire())) if batches else None


def taken(files, batch) -> None:
    files.take([MetricsResult("r1", batch.part, batch.end, batch.mark)])


def points(batch) -> list[tuple[str, int, float]]:
    return [
        (series.name, step, float(value))
        for series in batch.series
        for step, value in zip(series.steps, series.values, strict=True)
    ]


def skipped(batch) -> dict[str, int]:
    return {str(entry.why): entry.count for entry in batch.skipped}


@pytest.mark.parametrize(
    ("text", "expected", "why"),
    [
        (b'{"step": 1, "name": "loss", "value": 0.5}', [("loss", 1, 0.5)], []),
        (b'{"step": 2, "loss": 1, "val/acc": 0.25, "time": 9}', "both", []),
        (b'{"step": 3.0, "value": -1e-5, "name": "\xe6\x8d\x9f\xe5\xa4\xb1"}', "zh", []),
        (b"  ", [], []),
        (b"epoch 3 loss 0.2", [], ["not_json"]),
        (b"[1]", [], ["not_json"]),
        (b"[" * 9_000, [], ["not_json"]),
        (b'{"a": ' + b"9" * 9_000 + b"}", [], ["not_json"]),
        (b"\xff\xfe{}", [], ["not_utf8"]),
        (b'{"name": "loss", "value": 1}', [], ["no_step"]),
        (b'{"step": -1, "name": "loss", "value": 1}', [], ["no_step"]),
        (b'{"step": 1e400, "name": "loss", "value": 1}', [], ["no_step"]),
        (b'{"step": NaN, "name": "loss", "value": 1}', [], ["no_step"]),
        (b'{"step": true, "name": "loss", "value": 1}', [], ["no_step"]),
        (b'{"step": 1, "name": "loss", "value": NaN}', [], ["not_finite"]),
        (b'{"step": 1, "loss": Infinity, "acc": 1e999}', [], ["not_finite"] * 2),
        (b'{"step": 1, "loss": 1' + b"0" * 400 + b"}", [], ["not_finite"]),
        (b'{"step": 1, "name": "loss", "value": "0.5"}', [], ["no_value"]),
        (b'{"step": 1, "name": "a<b", "value": 1}', [], ["name_refused"]),
        (b'{"step": 1, "name": ["x"], "value": 1}', [], ["name_refused"]),
        (b'{"step": 1}', [], ["no_value"]),
    ],
)
def test_a_line_is_points_or_says_why_not(text, expected, why):
    named = {
        "both": [("loss", 2, 1.0), ("val/acc", 2, 0.25)],
        "zh": [("损失", 3, -1e-5)],
    }
    found, reasons = read_line(text)
    expected = named.get(expected, expected) if isinstance(expected, str) else expected
    assert found == [MetricPoint(*point) for point in expected]
    assert reasons == why


def test_new_lines_are_read_once_and_half_a_line_waits_for_its_end(files, file):
    assert read(files) is None
    file.write_bytes(line(1, 0.5) + b'{"step": 2, ')
    first = read(files)
    assert (points(first), first.offset, first.end) == ([("loss", 1, 0.5)], 0, len(line(1, 0.5)))
    # Nothing more is read while the portal has not taken it.
    with file.open("ab") as more:
        more.write(b'"loss": 0.25}\n')
    assert read(files) == first
    taken(files, first)
    second = read(files)
    assert (points(second), second.offset) == ([("loss", 2, 0.25)], first.end)
    taken(files, second)
    assert read(files) is None


def test_the_last_line_needs_no_end_once_the_replica_has_ended(files, file):
    file.write_bytes(line(1, 1) + line(2, 2)[:-1])
    assert points(read(files, is_ended=True)) == [("loss", 1, 1), ("loss", 2, 2)]


@pytest.mark.parametrize("rewrite", ["truncate", "replace"])
def test_a_file_that_begins_anew_is_read_as_its_next_part(files, file, rewrite):
    file.write_bytes(line(1, 0.5) + line(2, 0.4))
    taken(files, read(files))
    if rewrite == "replace":
        file.unlink()
    # As long as before: only its bytes tell that it is another.
    file.write_bytes(line(1, 0.9) + line(2, 0.8) + line(3, 0.7))
    batch = read(files)
    assert (batch.part, batch.offset) == (1, 0)
    assert [value for _, _, value in points(batch)] == [0.9, 0.8, 0.7]


def test_a_restarted_agent_goes_on_where_the_portal_is(files, file, tmp_path):
    file.write_bytes(line(1, 0.5))
    first = read(files)
    taken(files, first)
    with file.open("ab") as more:
        more.write(line(2, 0.25))
    restarted = MetricsFiles(lambda replica: tmp_path / replica / "metrics.jsonl")
    read(restarted)
    refusal = ContractErrorCode.OFFSET_MISMATCH
    restarted.take([MetricsResult("r1", 0, first.end, first.mark, str(refusal))])
    assert points(read(restarted)) == [("loss", 2, 0.25)]


def test_endless_lines_and_bytes_that_are_no_text_are_counted_and_skipped(files, file):
    endless = b"x" * (3 * files_module.CHUNK_BYTES)
    file.write_bytes(endless + b"\n" + line(1, 1) + b"\xff\n" + line(2, 2))
    counts, got = Counter(), []
    while batch := read(files):
        assert batch.end > batch.offset
        counts.update(skipped(batch))
        got += points(batch)
        taken(files, batch)
    assert got == [("loss", 1, 1), ("loss", 2, 2)]
    assert counts == {"line_too_long": 1, "not_utf8": 1}
    with file.open("ab") as more:
        more.write(b"y" * MAX_LINE_BYTES)
    assert skipped(read(files)) == {"line_too_long": 1}


def test_ten_thousand_points_become_few_and_keep_their_extremes_and_their_last(files, file):
    values = [abs(step - 3_333) for step in range(10_000)]
    file.write_bytes(b"".join(b'{"step":%d,"l":%d}\n' % pair for pair in enumerate(values)))
    batch = read(files)
    (series,) = batch.series
    assert len(series.steps) <= MAX_SERIES_POINTS
    # One round reads a part of the file.
    assert series.count == 1 + series.steps[-1] > MAX_SERIES_POINTS
    assert (float(series.low), float(series.high)) == (0, max(values[: series.count]))


def test_ten_thousand_names_are_a_hundred_and_a_count(files, file):
    file.write_bytes(b"".join(line(1, n, f"n{n}") for n in range(2_000)))
    batch = read(files)
    assert len(batch.series) == MAX_METRIC_NAMES
    assert skipped(batch) == {"too_many_names": 2_000 - MAX_METRIC_NAMES}


def test_many_names_with_many_points_fit_one_call(files, file):
    names = [f"n{n}" for n in range(MAX_METRIC_NAMES)]
    file.write_bytes(b"".join(line(s, 1, name) for s in range(50) for name in names))
    batch = read(files)
    assert sum(len(series.steps) for series in batch.series) <= MAX_BATCH_POINTS
    assert {series.count for series in batch.series} == {50}


@pytest.mark.parametrize("kind", ["link", "folder", "pipe"])
def test_what_stands_in_place_of_the_file_is_not_opened_and_is_counted_once(
    files, file, tmp_path, kind
):
    (tmp_path / "secret").write_bytes(line(1, 42))
    match kind:
        case "link":
            file.symlink_to(tmp_path / "secret")
        case "folder":
            file.mkdir()
        case "pipe":
            os.mkfifo(file)
    batch = read(files)
    assert (points(batch), skipped(batch)) == ([], {SkipReason.NOT_A_FILE: 1})
    taken(files, batch)
    assert read(files) is None


def test_a_link_in_place_of_its_folder_is_not_followed(files, tmp_path):
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "metrics.jsonl").write_bytes(line(1, 42))
    (tmp_path / "r1").symlink_to(tmp_path / "other")
    assert points(read(files)) == []


def test_what_is_left_is_read_before_a_replica_is_removed_and_sent_afterwards(files, file):
    file.write_bytes(line(1, 0.5))
    first = read(files)
    with file.open("ab") as more:
        more.write(line(2, 0.25)[:-1])
    files.read_last("r1")
    file.unlink()
    file.parent.rmdir()
    taken(files, first)
    last = read(files)
    assert (points(last), last.offset) == ([("loss", 2, 0.25)], first.end)
    taken(files, last)
    files.forget_except([])
    assert files.due() == []
