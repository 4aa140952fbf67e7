"""The lines of a job's samples: peaks stay, gaps stay gaps, one point is a point."""

from datetime import UTC, datetime

from portal.web.job.chart import HEIGHT, MAX_POINTS, WIDTH, Point, chart

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def drawn(*values, top=100, first=0):
    points = [Point(first + minute, value) for minute, value in enumerate(values)]
    return chart(points, top=top, start=NOON, end=NOON)


def test_a_line_goes_from_edge_to_edge_with_its_numbers_up():
    found = drawn(0, 50, 100)
    assert found.lines == (f"0.0,{HEIGHT}.0 {WIDTH / 2},{HEIGHT / 2} {WIDTH}.0,0.0",)
    assert (found.peak, found.latest) == (100, 100)


def test_what_was_not_measured_is_a_gap_and_a_lone_minute_is_a_dot():
    found = drawn(10, 20, None, 30, None, 40, 50)
    assert (len(found.lines), len(found.dots)) == (2, 1)
    assert (found.peak, found.latest) == (50, 50)


def test_minutes_without_a_sample_are_a_gap_too():
    points = [Point(m, 10) for m in (*range(10), *range(60, 70))]
    assert len(chart(points, top=100, start=NOON, end=NOON).lines) == 2


def test_nothing_measured_has_no_peak_and_a_last_that_is_missing_is_no_zero():
    assert drawn(None, None).peak is None
    assert drawn(5, None).latest is None
    assert chart([], top=100, start=NOON, end=NOON).peak is None


def test_the_peak_of_a_long_run_is_drawn_although_not_every_minute_is():
    values = [10] * 10_000
    values[7_777] = 99
    found = drawn(*values)
    points = found.lines[0].split()
    assert len(points) <= MAX_POINTS
    assert min(float(point.split(",")[1]) for point in points) == round(HEIGHT * 0.01, 1)
    assert found.peak == 99
