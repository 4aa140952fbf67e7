"""The number of copies of a service: bounds, cool-down and replacement, on random loads."""

from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from portal.job_services.replacement import CopyState, copy_changes
from portal.job_services.scaling import Scale, ScaleBounds, next_scale
from tests.support.examples import examples

START = datetime(2026, 11, 27, tzinfo=UTC)
BOUNDS = st.builds(
    lambda least, more, calls, cool: ScaleBounds(
        least, max(1, least + more), calls, timedelta(seconds=cool)
    ),
    st.integers(0, 4),
    st.integers(0, 6),
    st.integers(1, 20),
    st.integers(0, 60),
)
# Seconds since the round before, and calls at once.
LOADS = st.lists(st.tuples(st.integers(0, 30), st.integers(0, 120)), min_size=1, max_size=20)


def needed(calls: int, bounds: ScaleBounds) -> int:
    return min(max(-(-calls // bounds.calls_per_copy), bounds.min_copies), bounds.max_copies)


@given(bounds=BOUNDS, begun=st.integers(0, 12), loads=LOADS)
@examples(100)
def test_the_scale_follows_the_calls_within_bounds(bounds, begun, loads):
    now, scale, history = START, Scale(begun), []
    for seconds, calls in loads:
        now += timedelta(seconds=seconds)
        before, scale = scale.copies, next_scale(scale, bounds, calls=calls, now=now)
        history.append((now, needed(calls, bounds)))
        assert bounds.min_copies <= scale.copies <= bounds.max_copies
        assert scale.copies >= needed(calls, bounds), "enough for the calls, at once"
        if scale.copies < min(before, bounds.max_copies):
            window = [n for at, n in history if now - at <= bounds.cool_down]
            assert scale.copies >= max(window), "as many as were needed during the cool-down"
            low = [at for at, n in history if n < before]
            assert now - low[0] >= bounds.cool_down


@given(bounds=BOUNDS, begun=st.integers(0, 12), calls=st.integers(0, 120))
@examples(100)
def test_steady_calls_come_to_rest_at_what_they_need(bounds, begun, calls):
    scale = Scale(begun)
    for step in range(3):
        now = START + step * (bounds.cool_down + timedelta(seconds=1))
        scale = next_scale(scale, bounds, calls=calls, now=now)
    assert scale.copies == needed(calls, bounds)
    assert next_scale(scale, bounds, calls=calls, now=now).copies == scale.copies


COPIES = st.lists(st.tuples(st.booleans(), st.booleans()), max_size=8)


@given(there=COPIES, target=st.integers(0, 6))
@examples(120)
def test_rounds_reach_the_target_and_never_lose_what_is_ready(there, target):
    """Between two rounds every copy that is not ready becomes so."""
    copies = [CopyState(pk, *each) for pk, each in enumerate(there, 1)]
    for _ in range(40):
        changes = copy_changes(copies, target)
        ready = sum(copy.is_ready for copy in copies)
        stay = [copy for copy in copies if copy.pk not in changes.leave]
        assert sum(copy.is_ready for copy in stay) >= min(ready, target)
        assert len(stay) + changes.start <= max(len(stay), target + 1)
        if not changes.start and not changes.leave and all(copy.is_ready for copy in copies):
            break
        newest = max([copy.pk for copy in copies], default=0)
        started = [CopyState(newest + n, True, True) for n in range(1, changes.start + 1)]
        copies = [CopyState(copy.pk, copy.is_current, True) for copy in stay] + started
    assert [copy.is_current for copy in copies] == [True] * target
