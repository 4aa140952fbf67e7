"""A watch on the simulated driver: what it hears, remembers, and forgets."""

import threading

import pytest

from agents.facts.gpu_health import DriverEvent, EventKind
from agents.health import events
from agents.health.verdict import EVENT_LIFETIME_SECONDS
from agents.health.watch import HealthWatch
from agents.simdriver.codes import Code
from agents.simdriver.faults import fail_next, inject_ecc, inject_remap
from agents.simdriver.health import clear_health, inject_lost, inject_xid
from agents.simdriver.library import symbols

SECONDS = 60  # a bound for what never comes; nothing waits so long


class Clock:
    seconds = 1_000.0

    def __call__(self):
        return self.seconds


class Bell:
    """Rung by the watch; waited for by the test."""

    def __init__(self):
        self.rung = threading.Semaphore(0)

    def __call__(self):
        self.rung.release()

    def wait(self):
        assert self.rung.acquire(timeout=SECONDS), "the watch heard nothing"


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def watch(clock):
    return HealthWatch(now=clock)


def look(watch, machine):
    judged = watch.assess(machine.nvml.devices())
    return {gpu.index: (gpu.healthy, gpu.health_reason) for gpu in judged.gpus}


def healthy(watch, machine):
    return [well for well, _ in look(watch, machine).values()]


def heard(machine, xid, index=0, **instance):
    places = {"gpu_instance": None, "compute_instance": None} | instance
    return DriverEvent(machine.gpus[index], EventKind.XID, xid, **places)


def test_each_gpu_is_judged_by_its_own_faults(machine, watch):
    assert healthy(watch, machine) == [True, True]
    watch.record(heard(machine, 119, index=1))
    assert watch.has_news
    found = look(watch, machine)
    assert found[0] == (True, "") and "XID 119" in found[1][1]
    assert not watch.has_news


def test_a_lost_gpu_stays_with_its_last_facts_and_comes_back_by_itself(machine, watch):
    before = watch.assess(machine.nvml.devices())
    with machine.store.change() as node:
        inject_lost(node.gpus[0])
    assert [gpu.index for gpu in machine.nvml.devices()] == [1]
    judged = watch.assess(machine.nvml.devices())
    assert [gpu.uuid for gpu in judged.gpus] == [gpu.uuid for gpu in before.gpus]
    assert judged.lost == {machine.gpus[0]}
    assert judged.gpus[0].memory_mib == before.gpus[0].memory_mib
    assert "off the bus" in judged.gpus[0].health_reason
    with machine.store.change() as node:
        clear_health(node, node.gpus[0])
    assert watch.assess(machine.nvml.devices()) == before


def test_a_gpu_that_was_taken_from_the_node_is_forgotten(machine, watch):
    look(watch, machine)
    with machine.store.change() as node:
        del node.gpus[0]
    assert len(watch.assess(machine.nvml.devices()).gpus) == 1
    assert len(watch.assess(machine.nvml.devices()).gpus) == 1


def test_a_driver_that_refuses_to_answer_for_a_gpu_makes_it_silent_not_lost(machine, watch):
    look(watch, machine)
    with machine.store.change() as node:
        call = "nvmlDeviceGetHandleByPciBusId_v2"
        fail_next(node, Code.UNKNOWN, call, 1, frozenset(symbols()))
    judged = watch.assess(machine.nvml.devices())
    assert (judged.unresponsive, judged.lost) == ({machine.gpus[0]}, frozenset())
    assert [gpu.healthy for gpu in judged.gpus] == [False, True]
    assert healthy(watch, machine) == [True, True]


@pytest.mark.parametrize("xid", [46, 48, 63, 64, 74, 79, 95, 119, 120])
def test_a_reset_makes_the_gpu_healthy_again_without_a_new_agent(machine, watch, xid):
    look(watch, machine)
    with machine.store.change() as node:
        inject_xid(node, node.gpus[0], xid)
    watch.record(heard(machine, xid))
    assert healthy(watch, machine) == [False, True]
    assert healthy(watch, machine) == [False, True]
    with machine.store.change() as node:
        clear_health(node, node.gpus[0])
    assert healthy(watch, machine) == [True, True]


def test_counters_are_read_also_where_no_event_was_heard(machine, watch):
    with machine.store.change() as node:
        inject_ecc(node, node.gpus[0], 3, corrected=False)
        inject_remap(node.gpus[1], failed=False)
    found = look(watch, machine)
    assert "3 memory errors" in found[0][1]
    assert "memory row" in found[1][1]


def test_a_drain_ends_after_a_quiet_hour(machine, watch, clock):
    watch.record(heard(machine, 987))
    assert healthy(watch, machine) == [False, True]
    clock.seconds += EVENT_LIFETIME_SECONDS - 1
    assert healthy(watch, machine) == [False, True]
    clock.seconds += 1
    assert healthy(watch, machine) == [True, True]


def test_consequences_of_an_event_are_drawn_once(machine, watch):
    watch.record(heard(machine, 94))
    watch.record(heard(machine, 94))
    events = watch.pending_events()
    assert len(events) == 2
    watch.record(heard(machine, 95))
    watch.clear_pending(events)
    assert [event.xid for event in watch.pending_events()] == [95]


def test_a_flood_of_programs_errors_drives_out_nothing_and_wakes_nobody(machine, clock):
    woken = []
    watch = HealthWatch(lambda: woken.append(1), now=clock)
    watch.record(heard(machine, 119))
    look(watch, machine)
    for _ in range(200):
        watch.record(heard(machine, 13))
        watch.record(DriverEvent(machine.gpus[0], EventKind.ECC_CORRECTED, 0, None, None))
    assert len(woken) == 1 and not watch.has_news
    assert healthy(watch, machine) == [False, True]
    watch.record(heard(machine, 154))
    assert watch.has_news, "the driver's own wish is to be read again"


def test_a_programs_error_counts_for_nothing_and_is_told_to_who_shares_the_gpu(machine, watch):
    told = []
    watch.on_event = told.append
    for event in (heard(machine, 31), heard(machine, 94)):
        watch.record(event)
    assert [event.xid for event in told] == [31, 94]
    assert [event.xid for event in watch.pending_events()] == [94]


def test_the_listener_hears_every_slice_of_a_gpu(machine):
    machine.nvml.set_mig_mode(machine.gpus[0], on=True)
    made = [machine.nvml.create_instance(machine.gpus[0], 19, start, 1) for start in (0, 1, 2)]
    bell = Bell()
    watch = HealthWatch(bell)
    watch.start()
    try:
        for instance in made:
            with machine.store.change() as node:
                inject_xid(node, node.gpus[0], 94, instance.instance_id, 0)
            bell.wait()
    finally:
        watch.stop()
    told = [(event.gpu_instance, event.compute_instance) for event in watch.pending_events()]
    assert told == [(instance.instance_id, 0) for instance in made]


def test_the_listener_goes_on_with_the_other_gpus_after_one_was_lost(machine):
    bell = Bell()
    watch = HealthWatch(bell)
    watch.start()
    try:
        watch.assess(machine.nvml.devices())
        with machine.store.change() as node:
            inject_xid(node, node.gpus[0], 79)
        bell.wait()  # the XID
        bell.wait()  # the driver refuses to wait on
        with machine.store.change() as node:
            clear_health(node, node.gpus[0])
        watch.assess(machine.nvml.devices())
        while not {event.xid for event in watch.pending_events()} >= {94}:
            # Registered again at some moment: what is injected before is not heard.
            with machine.store.change() as node:
                inject_xid(node, node.gpus[0], 94)
            bell.rung.acquire(timeout=0.05)
    finally:
        watch.stop()
    assert watch.pending_events()[0].xid == 79


def test_a_driver_without_events_does_not_keep_the_watch_from_its_work(machine, monkeypatch):
    monkeypatch.setattr(events, "EventSet", lambda: 1 / 0)
    bell = Bell()
    watch = HealthWatch(bell)
    watch.start()
    bell.wait()
    watch.stop()
    assert healthy(watch, machine) == [True, True]
