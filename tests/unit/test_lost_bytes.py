"""What the adoption benchmark counts: every byte of a log that is missing, or there too often."""

import pytest

from tests.benchmarks.adoption import wrong_bytes

SAID = b"0\n1\n2\n3\n"


@pytest.mark.parametrize(
    ("there", "lost", "doubled"),
    [
        (SAID, 0, 0),
        (b"0\n2\n3\n", 2, 0),
        (b"0\n1\n1\n2\n3\n", 0, 2),
        (b"0\n1\n2\n1", 2, 1),
        (b"", len(SAID), 0),
        (b"1\n2\n2\n3\n", 2, 2),
        (b"0\n1\n2\n3\n4\n5\n", 0, 0),
        (b"0\n1\n2\n3\n5\n5\n", 2, 2),
    ],
    ids=[
        "all of it",
        "a line lost",
        "a line doubled",
        "cut within a line",
        "nothing",
        "one lost, one doubled",
        "more than the engine's stream had",
        "more, and wrong",
    ],
)
def test_lost_and_doubled_bytes_do_not_make_up_for_each_other(there, lost, doubled):
    assert wrong_bytes(there, SAID) == (lost, doubled)


def test_a_log_in_another_order_is_no_good_log():
    with pytest.raises(AssertionError, match="order"):
        wrong_bytes(b"1\n0\n2\n3\n", SAID)
