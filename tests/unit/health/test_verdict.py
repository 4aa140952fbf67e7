"""Healthy or not, and why: from what was heard and what is read, without a driver."""

import pytest

from agents.facts.gpu_health import EventKind, HealthReadings
from agents.health.slowdowns import (
    HW_SLOWDOWN,
    HW_THERMAL,
    POWER_BRAKE,
    SW_THERMAL,
    slowdown_warning,
)
from agents.health.verdict import (
    EVENT_LIFETIME_SECONDS,
    GpuEvent,
    Recovery,
    assess,
    carry_forward,
    is_current,
    was_reset,
)

WELL = HealthReadings(remap_pending=False, remap_failed=False, uncorrected_errors=0, recovery=0)


def an_event(xid=0, kind=EventKind.XID, at=0.0, **fields):
    return GpuEvent("GPU-1", kind, at, xid, **fields)


def test_a_gpu_of_which_nothing_is_known_is_healthy():
    assert assess([], HealthReadings()).healthy and assess([], WELL).healthy
    assert assess([], WELL).reason == ""


@pytest.mark.parametrize(
    ("reads", "word"),
    [
        (HealthReadings(is_lost=True), "fallen off the bus"),
        (HealthReadings(driver_error="Unknown Error"), "Unknown Error"),
        (HealthReadings(remap_failed=True), "replace the GPU"),
        (HealthReadings(remap_pending=True), "drain the GPU and reset it"),
        (HealthReadings(uncorrected_errors=2), "2 memory errors"),
        (HealthReadings(recovery=Recovery.GPU_RESET), "a reset of the GPU"),
        (HealthReadings(recovery=99), "recovery action 99"),
    ],
)
def test_what_is_read_takes_a_gpu_out_of_service_and_says_what_to_do(reads, word):
    health = assess([an_event(13)], reads)
    assert not health.healthy and word in health.reason


@pytest.mark.parametrize("xid", [13, 31, 43, 45, 68, 94, 109, 154])
def test_errors_of_programs_leave_the_gpu_in_service(xid):
    assert assess([an_event(xid)], WELL).healthy


@pytest.mark.parametrize("xid", [46, 48, 63, 64, 74, 79, 92, 95, 119, 120, 987])
def test_errors_of_the_gpu_take_it_out_and_name_the_xid(xid):
    health = assess([an_event(13), an_event(xid, gpu_instance=3)], WELL)
    assert not health.healthy
    assert f"XID {xid}," in health.reason and "GPU instance 3" in health.reason


def test_memory_errors_count_by_whether_they_were_corrected():
    assert assess([an_event(kind=EventKind.ECC_CORRECTED)], WELL).healthy
    assert not assess([an_event(kind=EventKind.ECC_UNCORRECTED)], WELL).healthy


@pytest.mark.parametrize(
    "before",
    [
        HealthReadings(is_lost=True),
        HealthReadings(remap_pending=True),
        HealthReadings(uncorrected_errors=1),
        HealthReadings(recovery=Recovery.DRAIN_AND_RESET),
    ],
)
def test_what_only_a_reset_takes_away_proves_a_reset(before):
    assert was_reset(before, WELL)
    assert not was_reset(WELL, WELL)
    assert not was_reset(before, HealthReadings(is_lost=True))
    assert not was_reset(before, HealthReadings(driver_error="Unknown Error"))


def test_silence_about_rows_while_instances_stand_is_no_reset():
    pending = HealthReadings(remap_pending=True, recovery=0)
    silent = HealthReadings(remap_pending=None, recovery=0)
    assert not was_reset(pending, silent)
    assert carry_forward(pending, silent).remap_pending is True


def test_a_lost_gpu_stays_lost_until_it_answers():
    unsure = carry_forward(
        HealthReadings(is_lost=True), HealthReadings(driver_error="Unknown Error")
    )
    assert unsure.is_lost and was_reset(unsure, WELL)


def test_what_slows_a_gpu_is_of_the_moment():
    assert (
        carry_forward(HealthReadings(clock_reasons=HW_THERMAL), HealthReadings()).clock_reasons
        is None
    )


def test_a_fault_lapses_only_where_the_driver_says_that_it_needs_nothing():
    event = an_event(119, at=100.0)
    assert is_current(event, WELL, 100.0 + EVENT_LIFETIME_SECONDS - 1)
    assert not is_current(event, WELL, 100.0 + EVENT_LIFETIME_SECONDS)
    for reads in (
        HealthReadings(),
        HealthReadings(recovery=1),
        HealthReadings(is_lost=True),
        HealthReadings(driver_error="?", recovery=0),
    ):
        assert is_current(event, reads, 100.0 + 10 * EVENT_LIFETIME_SECONDS)


@pytest.mark.parametrize("bit", [HW_SLOWDOWN, SW_THERMAL, HW_THERMAL, POWER_BRAKE])
def test_heat_and_brakes_are_told(bit):
    assert slowdown_warning(bit | 0x1)


def test_heat_is_named_before_the_slowdown_that_it_causes():
    assert "too hot" in slowdown_warning(HW_SLOWDOWN | HW_THERMAL)
    assert "brake" in slowdown_warning(HW_SLOWDOWN | POWER_BRAKE)


@pytest.mark.parametrize("reasons", [None, 0, 0x1, 0x2, 0x4, 0x10, 0x100])
def test_idle_capped_or_set_clocks_are_no_news(reasons):
    assert slowdown_warning(reasons) == ""
