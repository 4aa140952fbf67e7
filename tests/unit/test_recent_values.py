"""What is asked for stays; what is not is forgotten, so that ended jobs take no memory."""

from portal.recent_values import SECONDS, RecentValues


class Clock:
    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now


def test_a_value_stays_while_it_is_asked_for_and_is_forgotten_after():
    clock = Clock()
    values = RecentValues[str, int](1_000, clock)
    values.keep("waits", 1)
    values.keep("ended", 2)
    for minute in range(1, 6):
        clock.now = minute * SECONDS
        values.keep(f"job of minute {minute}", minute)
        assert values.get("waits") == 1
    assert values.get("ended") is None


def test_a_quiet_process_forgets_nothing():
    """The values of a pass are there in the next one, however long nothing was planned."""
    clock = Clock()
    values = RecentValues[int, int](1_000, clock)
    for job in range(100):
        values.keep(job, job)
    clock.now = 3_600.0
    values.keep(-1, 0)
    assert [values.get(job) for job in range(100)] == list(range(100))


def test_as_many_jobs_as_may_come_take_the_memory_of_two_minutes():
    clock = Clock()
    values = RecentValues[int, int](1_000_000, clock)
    sizes = []
    for second in range(1_800):
        clock.now = float(second)
        for number in range(20):
            values.keep(second * 20 + number, number)
        sizes.append(len(values))
    assert max(sizes) <= 2 * 20 * (SECONDS + 1)


def test_more_at_once_than_there_is_room_for_are_forgotten_from_the_oldest_on():
    values = RecentValues[int, int](10, Clock())
    for job in range(100):
        values.keep(job, job)
    assert len(values) <= 20
    assert values.get(99) == 99
    assert values.get(0) is None


def test_a_newer_value_takes_the_place_of_an_older_one():
    clock = Clock()
    values = RecentValues[str, int](10, clock)
    values.keep("job", 1)
    clock.now = SECONDS
    values.keep("another", 1)
    values.keep("job", 2)
    assert values.get("job") == 2
    assert len(values) == 3
