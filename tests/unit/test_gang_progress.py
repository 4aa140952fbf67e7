"""When a gang makes no progress: all of its ranks are silent for longer than it ever was."""

from datetime import UTC, datetime, timedelta

from portal.idle.progress import Progress

START = datetime(2026, 11, 26, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)
MINUTE = timedelta(minutes=1)


def after(*looks: tuple[int, dict[int, str]]) -> Progress:
    """Looks at the marks of its ranks, each with its minute."""
    progress = Progress()
    for minute, marks in looks:
        progress = progress.with_marks(marks, START + minute * MINUTE)
    return progress


def test_one_rank_that_writes_is_progress_and_the_silence_of_all_is_none():
    progress = after((0, {0: "1", 1: "1"}), (50, {0: "1", 1: "2"}))
    assert progress.silence(START + 90 * MINUTE, HOUR) is None
    assert progress.silence(START + 160 * MINUTE, HOUR) == 110 * MINUTE
    assert progress.first_silent_rank == 0


def test_a_gang_that_has_written_nothing_is_not_judged():
    progress = after((0, {0: "", 1: ""}), (600, {0: "", 1: ""}))
    assert progress.silence(START + 900 * MINUTE, HOUR) is None


def test_a_rank_that_never_writes_is_not_the_first_to_fall_silent():
    assert after((0, {0: "", 1: "", 2: "1"}), (5, {0: "", 1: "1", 2: "1"})).first_silent_rank == 2


def test_a_gang_that_paused_before_may_pause_twice_as_long():
    progress = after((0, {0: "1"}), (100, {0: "2"}))
    assert progress.silence(START + 299 * MINUTE, HOUR) is None
    assert progress.silence(START + 300 * MINUTE, HOUR) == 200 * MINUTE


def test_while_its_nodes_do_not_answer_nothing_is_concluded():
    progress = after((0, {0: "1"})).with_silent_nodes(START + 500 * MINUTE)
    assert progress.silence(START + 550 * MINUTE, HOUR) is None
    assert progress.silence(START + 560 * MINUTE, HOUR) == HOUR
