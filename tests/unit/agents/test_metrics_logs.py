"""Metrics in logs: lines with the prefix are read as the bytes pass, once each."""

import pytest

from agents.contract.codec import decode, encode
from agents.contract.errors import ContractErrorCode
from agents.contract.job_metrics import (
    MAX_BATCH_POINTS,
    MAX_METRIC_NAMES,
    JobMetricsRequest,
    MetricsBatch,
    MetricsResult,
)
from agents.job_metrics.lines import MAX_LINE_BYTES
from agents.job_metrics.log_lines import LogLines
from agents.job_metrics.logs import MetricsLogs

REPORT = b'tessera-metric {"step": 1, "loss": 0.5}\n'


def texts(log: bytes, size: int) -> list[bytes]:
    """The lines that are found when the log arrives in pieces of this size."""
    lines = LogLines()
    pieces = ((at, log[at : at + size]) for at in range(0, len(log), size))
    return [line.text for at, data in pieces for line in lines.feed(at, data)]


@pytest.mark.parametrize("size", [1, 7, 40, 10_000])
@pytest.mark.parametrize(
    ("log", "expected"),
    [
        (b"tessera-metric {1}\nepoch 1\ntessera-metric {2}\r\n", [b"{1}", b"{2}\r"]),
        # After a progress bar, which ends with a carriage return.
        (b" 10%|#   |\r 20%|##  |\rtessera-metric {1}\n", [b"{1}"]),
        (b"+ echo tessera-metric {1}\nsee tessera-metric {2}\n", []),
        (b"tessera-metrics {1}\ntessera-metric\n tessera-metric {1}\n", []),
        # Its end may never come.
        (b"tessera-metric {1}", []),
        (b"\0\xff\ntessera-metric \xff\n\n\n", [b"\xff"]),
    ],
)
def test_a_line_with_the_prefix_is_found_however_the_log_is_cut(log, expected, size):
    assert texts(log, size) == expected


@pytest.mark.parametrize("size", [1_000, 100_000])
def test_an_endless_line_is_reported_once_and_not_kept(size):
    log = b"tessera-metric " + b"x" * (4 * MAX_LINE_BYTES) + b"\n" + REPORT
    lines = LogLines()
    found = [
        line for at in range(0, len(log), size) for line in lines.feed(at, log[at : at + size])
    ]
    assert [line.is_too_long for line in found] == [True, False]
    assert len(lines._kept) <= MAX_LINE_BYTES + 100


def test_bytes_that_pass_again_are_left_out_and_a_gap_begins_within_a_line():
    lines = LogLines()
    assert len(list(lines.feed(0, REPORT))) == 1
    assert list(lines.feed(0, REPORT)) == []
    assert len(list(lines.feed(10, REPORT[10:] + REPORT))) == 1
    # The first line after a gap may be the rest of another.
    assert len(list(lines.feed(1_000, REPORT + REPORT))) == 1


class Portal:
    """A log, the agent that reads it, and where the portal is."""

    def __init__(self):
        self.log, self.offset, self.batches = b"", 0, list[MetricsBatch]()
        self.shipped = 0
        self.restart()

    def restart(self):
        self.logs = MetricsLogs(lambda replica, offset, limit: self.log[offset : offset + limit])

    def ship(self, text: bytes):
        self.log += text
        self.logs.feed("r1", self.shipped, self.log[self.shipped :])
        self.shipped = len(self.log)

    def send(self, *, answer: bool = True) -> list[tuple[str, int]]:
        """One call. The names and steps of the points that the portal has not had before."""
        batches = [batch.on_the_wire() for batch in self.logs.due()]
        request = decode(
            JobMetricsRequest, encode(JobMetricsRequest(1, tuple(batches), from_logs=True))
        )
        new, results = [], []
        for batch in request.batches:
            is_new = batch.offset >= self.offset
            if is_new:
                self.offset = batch.end
                self.batches.append(batch)
                new += [(series.name, step) for series in batch.series for step in series.steps]
            code = "" if is_new else str(ContractErrorCode.OFFSET_MISMATCH)
            results.append(MetricsResult("r1", 0, self.offset, 0, code))
        if answer:
            self.logs.take(results)
        return new


def report(step: int) -> bytes:
    return b'tessera-metric {"step": %d, "loss": 0.5}\n' % step


def test_a_log_without_metrics_makes_no_call():
    portal = Portal()
    portal.ship(b"epoch 1\n" * 100)
    assert portal.logs.due() == []


def test_points_count_once_when_an_answer_is_lost():
    portal = Portal()
    portal.ship(b"begin\n" + report(1))
    assert portal.send(answer=False) == [("loss", 1)]
    portal.ship(b"between\n" + report(2))
    assert portal.send() == []
    assert portal.send() == [("loss", 2)]
    assert portal.send() == []


def test_a_restarted_agent_sends_what_was_shipped_and_not_sent():
    portal = Portal()
    portal.ship(report(1))
    assert portal.send() == [("loss", 1)]
    portal.ship(report(2) + report(3)[:9])
    portal.restart()
    portal.ship(report(3)[9:])
    found = portal.send() + portal.send() + portal.send()
    assert found == [("loss", 2), ("loss", 3)]


def test_a_flood_stays_small_and_garbage_is_counted():
    portal = Portal()
    for n in range(20):
        portal.ship(
            b"".join(
                b'tessera-metric {"step": %d, "m%d": 1}\n' % (s, s % 300)
                for s in range(n * 500, n * 500 + 500)
            )
        )
    portal.ship(b"tessera-metric garbage\n" * 1_000)
    portal.send()
    (batch,) = portal.batches
    assert len(batch.series) == MAX_METRIC_NAMES
    assert sum(len(series.steps) for series in batch.series) <= MAX_BATCH_POINTS
    assert {str(row.why): row.count for row in batch.skipped}["not_json"] == 1_000


def test_what_is_gone_and_sent_is_forgotten():
    portal = Portal()
    portal.ship(report(1))
    portal.logs.forget_except([])
    assert portal.send() == [("loss", 1)]
    portal.logs.forget_except([])
    assert portal.logs._logs == {}
