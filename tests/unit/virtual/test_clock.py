"""The clock of a simulation: what happens when, and that the planner is asked once for a moment."""

from scheduler.virtual.clock import VirtualClock


def played(clock):
    """(moment, whether anything changed), until all is over."""
    found = []
    while (now := clock.next_at) is not None:
        found.append((now, clock.run_due(now)))
    return found


def test_happenings_come_in_time_and_those_of_one_moment_in_the_order_they_were_set():
    clock, told = VirtualClock(), []
    for when, name in [(5, "b"), (3, "a"), (5, "c")]:
        clock.schedule(when, lambda now, name=name: told.append((now, name)) or True)
    assert played(clock) == [(3, True), (5, True)]
    assert told == [(3, "a"), (5, "b"), (5, "c")]


def test_what_changes_nothing_is_no_reason_to_ask_the_planner():
    clock = VirtualClock()
    clock.schedule(1, lambda now: False)
    clock.schedule(2, lambda now: False)
    clock.schedule(2, lambda now: True)
    assert played(clock) == [(1, False), (2, True)]


def test_what_happens_may_set_more_of_the_same_moment():
    clock, told = VirtualClock(), []

    def more(now):
        clock.schedule(now, lambda then: told.append(then) or True)
        return False

    clock.schedule(4, more)
    assert played(clock) == [(4, True)]
    assert told == [4]


def test_a_look_is_taken_once_at_the_next_moment_of_its_grid():
    clock = VirtualClock()
    clock.recheck_at(361, 360)
    clock.recheck_at(720, 360)
    clock.recheck_at(700)
    assert played(clock) == [(700, True), (720, True)]
    clock.recheck_at(720, 360)
    assert played(clock) == [(720, True)]
