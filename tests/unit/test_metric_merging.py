"""Series of metrics stay bounded and evenly spaced, and the newest value of a step counts."""

from itertools import pairwise

from portal.job_metrics.merging import MAX_KEPT_POINTS, KeptPoints, merged_points


def merged(kept, *new, begins_anew=False):
    return merged_points(kept, new, begins_anew=begins_anew)


def test_points_are_kept_by_step_and_the_newest_value_of_a_step_counts():
    kept = merged(KeptPoints(), (3, 0.3), (1, 0.1), (2, 0.2))
    assert kept.points == ((1, 0.1), (2, 0.2), (3, 0.3))
    assert merged(kept, (2, 9.0)).points == ((1, 0.1), (2, 9.0), (3, 0.3))


def test_another_attempt_replaces_what_was_reported_from_its_first_step_on():
    kept = merged(KeptPoints(), *((step, 1.0) for step in range(10)))
    resumed = merged(kept, (6, 2.0), (7, 2.0), begins_anew=True)
    assert resumed.points == (*((step, 1.0) for step in range(6)), (6, 2.0), (7, 2.0))


def test_a_million_points_leave_a_bounded_and_even_series():
    kept = KeptPoints()
    for start in range(0, 1_000_000, 2_000):
        kept = merged(kept, *((step, float(step)) for step in range(start, start + 2_000, 10)))
        assert len(kept.points) <= MAX_KEPT_POINTS
    steps = [step for step, _ in kept.points]
    gaps = {b - a for a, b in pairwise(steps)}
    assert steps[0] == 0
    assert steps[-1] > 990_000
    assert len(steps) > MAX_KEPT_POINTS // 4
    assert max(gaps) <= 2 * min(gaps)
