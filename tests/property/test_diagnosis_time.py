"""A diagnosis ends in time whatever a log holds, and always has a cause."""

import time

from hypothesis import given
from hypothesis import strategies as st

from portal.diagnosis.diagnose import PATTERNS, diagnose
from portal.diagnosis.log_text import failure_lines
from portal.diagnosis.secrets import masked
from portal.diagnosis.tracebacks import HEADER
from portal.diagnosis.values import AttemptEnd, ReplicaEnd
from portal.jobs.failure_causes import FailureCause

PHRASES = sorted({phrase for pattern in PATTERNS for phrase in pattern.phrases})
PIECES = st.sampled_from(
    [*PHRASES, HEADER, "  File \"a.py\"", "[rank3]: ", "a.b.c.", ":", "'", '"', " ", "a", "0", "_",
     "\r", "\n", "\x1b[", "token=", "The above exception was the direct cause",
     "During handling of the above exception", "=== ", "([", "OpType=", "Rank 1]"]
)  # fmt: skip
HOSTILE = st.lists(st.tuples(PIECES, st.integers(1, 3_000)), min_size=1, max_size=12)
CODES = st.sampled_from([None, 0, 1, 2, 126, 127, 134, 135, 137, 139, 255])


def log_of(pieces, size=256 * 1024) -> bytes:
    return "".join(text * count for text, count in pieces).encode()[:size]


@given(HOSTILE, CODES)
def test_hostile_lines_take_no_more_time_than_their_length(pieces, exit_code):
    data = log_of(pieces)
    begun = time.process_time()
    lines = failure_lines(0, 1, data)
    finding = diagnose(
        AttemptEnd("failed", status="exited", replicas=[ReplicaEnd(0, exit_code, lines=lines)])
    )
    text = masked(finding.line.text if finding.line else "")
    # 256 KiB; a regular expression that backtracks would take minutes.
    assert time.process_time() - begun < 5
    assert isinstance(finding.cause, FailureCause)
    assert finding.sentence.text
    assert len(text) <= 2_000 + 100


@given(st.binary(max_size=4_000), CODES)
def test_any_bytes_have_a_cause(data, exit_code):
    replica = ReplicaEnd(0, exit_code, lines=failure_lines(0, 1, data))
    finding = diagnose(AttemptEnd("failed", status="exited", replicas=[replica]))
    assert isinstance(finding.cause, FailureCause)
    assert "\x00" not in finding.sentence.text
