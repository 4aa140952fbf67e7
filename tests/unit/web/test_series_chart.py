"""Series over steps as lines: from edge to edge, each in a style of its own."""

from portal.web.series_chart import HEIGHT, MAX_LINES, WIDTH, metric_text, series_chart


def test_lines_share_one_scale_and_end_in_a_dot():
    chart = series_chart([("a", [(0, 1.0), (10, 0.0)]), ("b", [(5, 0.5)])])
    first, second = chart.drawn
    assert first.line == f"0.0,0.0 {WIDTH}.0,{HEIGHT}.0"
    assert (first.dot, first.last) == ((WIDTH, HEIGHT), "0")
    assert (second.line, second.dot) == ("", (WIDTH / 2, HEIGHT / 2))
    assert (chart.first_step, chart.last_step, chart.low, chart.high) == (0, 10, "0", "1")


def test_a_series_without_points_keeps_its_number():
    chart = series_chart([("a", []), ("b", [(1, 2.0)])])
    assert [(drawn.label, drawn.number) for drawn in chart.drawn] == [("b", 2)]
    assert series_chart([("a", [])]) is None
    assert len(series_chart([(str(n), [(n, 1.0)]) for n in range(9)]).drawn) == MAX_LINES


def test_values_that_never_change_and_the_largest_floats_are_drawn():
    assert series_chart([("a", [(1, 3.0), (2, 3.0)])]).drawn[0].dot == (WIDTH, HEIGHT / 2)
    largest = 1.7976931348623157e308
    assert series_chart([("a", [(1, -largest), (2, largest)])]).drawn[0].dot == (WIDTH, 0)


def test_values_are_written_in_few_digits():
    texts = [metric_text(value) for value in (3.0, 12_345.0, 0.123456, 1e-5, -2.5, 1e300)]
    assert texts == ["3", "12,345", "0.1235", "1e-05", "-2.5", "1e+300"]
