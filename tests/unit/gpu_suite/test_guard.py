"""What the guard takes for reading, name by name. It is not closed in this process."""

import re
from inspect import getsource, isfunction

import pynvml
import pytest

from tests.gpu import guard

SYMBOLS = sorted(set(re.findall(r'_nvmlGetFunctionPointer\("(\w+)"\)', getsource(pynvml))))
FUNCTIONS = [n for n, f in vars(pynvml).items() if isfunction(f) and n.startswith("nvml")]
ASKS = re.compile(r"nvml(System|Device|GpuInstance|ComputeInstance|Unit)(Get|Is)")
# Everything that passes and is no plain question of a GPU, an instance or the system.
SESSIONS = {"nvmlInit", "nvmlInitWithFlags", "nvmlShutdown", "nvmlErrorString"}
SAMPLES = {
    "nvmlGpmQueryDeviceSupport",
    "nvmlGpmQueryIfStreamingEnabled",
    "nvmlGpmSampleAlloc",
    "nvmlGpmSampleFree",
    "nvmlGpmSampleGet",
    "nvmlGpmMigSampleGet",
    "nvmlGpmMetricsGet",
}
OTHERS = {"nvmlDeviceOnSameBoard", "nvmlDeviceQueryDrainState"}
VERBS = ("Set", "Create", "Destroy", "Reset", "Clear", "Write", "Remove", "Modify", "Register")


def test_nothing_passes_but_questions_the_session_and_samples_of_our_own():
    passing = {name for name in (*SYMBOLS, *FUNCTIONS) if guard.reads(name)}
    assert {name for name in passing if not ASKS.match(name)} == SESSIONS | SAMPLES | OTHERS


@pytest.mark.parametrize("verb", VERBS)
def test_no_function_of_pynvml_with_a_changing_verb_passes(verb):
    named = [n for n in (*SYMBOLS, *FUNCTIONS) if re.search(rf"{verb}(?![a-z])", n)]
    assert named
    assert {n for n in named if guard.reads(n)} <= {"nvmlSystemGetTopologyGpuSet"}


def test_the_level_that_uses_the_gpu_passes_events_besides_and_nothing_else():
    assert {name for name in guard.EVENTS if guard.reads(name)} == set()
    assert set(SYMBOLS) | set(FUNCTIONS) >= guard.EVENTS
    assert [name for name in guard.EVENTS if not re.search("Event", name)] == []


def test_every_function_is_barred_or_known_to_read():
    barred = guard.changing()
    assert len(barred) > 100
    assert {n for n in FUNCTIONS if n not in barred and not guard.reads(n)} == guard.PURE


def test_the_guard_of_this_process_stands_open():
    assert not guard.is_closed()
