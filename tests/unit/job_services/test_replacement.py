"""Which copies of a service start and leave, and the wait after failures."""

from datetime import timedelta

import pytest

from portal.job_services.durations import counts_sum, duration_counts, percentile_ms
from portal.job_services.replacement import CopyChanges, CopyState, copy_changes, wait_after


def copies(text: str) -> list[CopyState]:
    """One for each word: "new" or "old", with "+" if it is ready."""
    return [
        CopyState(pk, word.startswith("new"), word.endswith("+"))
        for pk, word in enumerate(text.split(), 1)
    ]


@pytest.mark.parametrize(
    ("there", "target", "start", "leave"),
    [
        ("", 0, 0, ()),
        ("", 2, 2, ()),
        ("new+ new", 2, 0, ()),
        ("new+ new+ new+", 1, 0, (3, 2)),
        # One that takes no calls leaves before one that does.
        ("new new+", 1, 0, (1,)),
        # One by one: a new one starts, is ready, and an old one leaves.
        ("old+ old+", 2, 1, ()),
        ("old+ old+ new", 2, 0, ()),
        ("old+ old+ new+", 2, 0, (1,)),
        ("old+ new+", 2, 1, ()),
        ("old+ new+ new+", 2, 0, (1,)),
        # What serves nobody makes room at once.
        ("old old", 2, 2, (1, 2)),
        ("old+ old", 2, 2, (2,)),
        ("old+", 0, 0, (1,)),
        # More are needed while the old ones are replaced.
        ("old+ new+", 4, 3, ()),
    ],
)
def test_copies_are_replaced_without_fewer_that_are_ready(there, target, start, leave):
    found = copy_changes(copies(there), target)
    assert found == CopyChanges(start, leave)


def test_the_wait_doubles_up_to_five_minutes():
    waits = [wait_after(n).total_seconds() for n in (1, 2, 3, 9, 10, 1_000)]
    assert waits == [1, 2, 4, 256, 300, 300]
    assert wait_after(0) == timedelta(seconds=1)


def test_durations_of_several_processes_add_up():
    first, second = duration_counts([0.001] * 98), duration_counts([0.1, 5_000.0])
    counts = counts_sum([first, second, [1, 2]])
    assert sum(counts) == 100
    assert percentile_ms(counts, 0.5) == 1.0
    assert 100 <= percentile_ms(counts, 0.99) <= 150
    assert percentile_ms(counts_sum([]), 0.5) is None
