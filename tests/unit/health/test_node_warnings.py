"""What is told of a node without taking a GPU out of service: slowed clocks, and a full disk."""

import shutil
from types import SimpleNamespace

import pynvml
import pytest

from agents.doctor.preflight import Preflight
from agents.hardware import Hardware
from agents.health.slowdowns import HW_SLOWDOWN, HW_THERMAL
from agents.host import disk_space as disk
from agents.loop.observe import observed_document
from tests.support.memory_runtime import MemoryRuntime
from tests.unit.doctor.machines import a_machine

REASONS = "nvmlDeviceGetCurrentClocksEventReasons"
GIB = 1 << 30


@pytest.fixture
def symbol(monkeypatch):
    """Puts another C symbol in the place of the simulated driver's."""

    def replace(name, function):
        pynvml._nvmlGetFunctionPointer_cache.clear()
        monkeypatch.setattr(pynvml.nvmlLib, name, function)

    yield replace
    pynvml._nvmlGetFunctionPointer_cache.clear()


@pytest.fixture
def room(monkeypatch):
    """Sets what is free on a disk of 1000 GiB."""

    def free(gib):
        usage = SimpleNamespace(total=1_000 * GIB, free=gib * GIB)
        monkeypatch.setattr(shutil, "disk_usage", lambda path: usage)

    return free


def document(hardware):
    hardware.refresh()
    return observed_document("n-1", hardware, (), {}, {})


def a_hardware(machine, **fields):
    return Hardware(machine.nvml, MemoryRuntime(dict), machine.folder, simulated=True, **fields)


def test_a_hot_gpu_is_told_and_stays_in_service(machine, symbol):
    def hot(device, reasons):
        reasons._obj.value = HW_SLOWDOWN | HW_THERMAL
        return pynvml.NVML_SUCCESS

    symbol(REASONS, hot)
    told = document(a_hardware(machine))
    assert all(gpu.healthy for gpu in told.gpus)
    assert [said[:20] for said in told.facts.problems] == [
        "GPU 0 is slow: it is",
        "GPU 1 is slow: it is",
    ]
    assert "too hot" in told.facts.problems[0]


@pytest.mark.parametrize(
    "code", [pynvml.NVML_ERROR_NOT_SUPPORTED, pynvml.NVML_ERROR_FUNCTION_NOT_FOUND]
)
def test_a_board_that_does_not_tell_why_it_is_slow_is_no_news(machine, symbol, code):
    symbol(REASONS, lambda device, reasons: code)
    told = document(a_hardware(machine))
    assert all(gpu.healthy for gpu in told.gpus) and told.facts.problems == ()


@pytest.mark.parametrize(("free", "is_full"), [(500, False), (100, False), (99, True), (4, True)])
def test_a_disk_is_full_by_the_limits_of_the_preflight(machine, room, free, is_full):
    room(free)
    assert disk.is_full(machine.folder) is is_full
    assert disk.free_mib(machine.folder) == free // 10 * 10 * 1024


def test_a_disk_that_fills_up_is_examined_at_once_and_its_room_is_told(machine, room):
    looks = []

    def look():
        looks.append(1)
        return a_machine(machine.folder / "machine")

    room(500)
    preflight = Preflight(look, now=lambda: 1_000.0)
    hardware = a_hardware(machine, preflight=preflight)
    assert document(hardware).facts.disk_free_mib == 500 * 1024
    assert len(looks) == 1, "nothing is due"
    room(20)
    assert document(hardware).facts.disk_free_mib == 20 * 1024
    preflight._running.join()
    assert len(looks) == 2
    document(hardware)
    assert len(looks) == 2
    room(500)
    document(hardware)
    preflight._running.join()
    assert len(looks) == 3
