"""What the program of the smoke test says of CUDA. The driver is a stand-in for hardware's."""

import subprocess
import sys

import pytest

from agents.doctor import cuda_program
from agents.doctor.smoke import CUDA_PROGRAM

INSIDE, FROM_HOST = 1_000e9, 50e9  # bytes a second


class Driver:
    """One device. Copies take the time of their size; the calls in `refused` answer an error."""

    def __init__(self):
        self.now = 0.0
        self.refused = {}
        self.waiting = 0.0

    def __getattr__(self, name):
        return lambda *_: self.refused.get(name, 0)

    def cuDeviceGetCount(self, count):
        count._obj.value = 1
        return self.refused.get("cuDeviceGetCount", 0)

    def cuMemcpyDtoD_v2(self, _target, _source, size):
        self.waiting += size.value / INSIDE
        return 0

    def cuMemcpyHtoD_v2(self, _target, _source, size):
        self.waiting += size.value / FROM_HOST
        return 0

    def cuCtxSynchronize(self):
        self.now, self.waiting = self.now + self.waiting, 0.0
        return 0


@pytest.fixture
def driver(monkeypatch):
    driver = Driver()
    monkeypatch.setattr(cuda_program.ctypes, "CDLL", lambda _name: driver)
    monkeypatch.setattr(cuda_program.time, "perf_counter", lambda: driver.now)
    monkeypatch.setattr(sys, "argv", ["-c", "bandwidth"])
    return driver


def test_what_is_read_and_written_in_memory_counts_and_the_first_copy_does_not(driver):
    assert cuda_program.main().splitlines() == ["cuda=1", "bandwidth=2000 50.0"]


def test_without_the_word_nothing_is_copied(driver, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["-c", ""])
    assert cuda_program.main() == "cuda=1"


def test_the_refused_call_is_named(driver):
    driver.refused = {"cuMemAlloc_v2": 2}
    assert cuda_program.main().splitlines()[1] == "bandwidth=error 2 of cuMemAlloc_v2"
    driver.refused = {"cuInit": 802}
    assert cuda_program.main() == "cuda=error 802"


def test_it_runs_as_it_does_in_a_container_without_a_driver():
    command = [sys.executable, "-I", "-c", CUDA_PROGRAM, "bandwidth"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.startswith("cuda="), "absent, where this machine has no driver"
