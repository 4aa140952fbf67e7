"""MIG modes that wait for a reset or a reboot, and what comes back after one."""

import sys
import threading
from pathlib import Path

import pynvml
import pytest

from agents.admission.policy import NodePolicy
from agents.contract.documents import GpuMode
from agents.nvml import gate
from agents.nvml.errors import nvml_errors
from agents.partitioning import modes
from agents.simdriver.faults import attach_client, detach_client, reboot_node
from agents.telemetry.sampler import Sampler
from tests.support.carving import LOW, Carving
from tests.unit.mps.stage import until

AMPERE = "A100-80GB"
SLICE = ("3g.40gb", 0, 4)
PASSED_THROUGH = 1
HERE = str(Path(__file__).resolve().parents[3])
# Stands for nvidia-smi: resets the simulated GPU as the real program does the real one.
RESETS = """#!{python}
import pathlib, sys
sys.path.insert(0, {here!r})
from agents.simdriver.faults import reset_gpu
from agents.simdriver.store import Store
assert sys.argv[1:3] == ["--gpu-reset", "-i"], sys.argv
pathlib.Path({ran!r}).write_text(sys.argv[3])
with Store(pathlib.Path({state!r})).change() as node:
    (gpu,) = (gpu for gpu in node.gpus if gpu.uuid == sys.argv[3])
    gpu.reset_refused = {refused}
    try:
        reset_gpu(node, gpu)
    except ValueError as refusal:
        sys.exit(f"Unable to reset: {{refusal}}")
"""


@pytest.fixture
def node(tmp_path):
    """Its first GPU does not reset itself when its mode is set, as in many a real machine."""
    node = Carving(tmp_path, AMPERE, gpus=2)
    with node.change() as state:
        state.gpus[0].reset_refused = True
    yield node
    node.end()


@pytest.fixture
def smi(node, tmp_path):
    """A policy that lets the agent reset GPUs with a program, and what it was run for."""

    def policy(*, refused=False):
        program = tmp_path / "nvidia-smi"
        values = {"state": str(node.machine.store.path), "ran": str(tmp_path / "ran")}

        text = RESETS.format(python=sys.executable, here=HERE, refused=refused, **values)
        program.write_text(text, "utf-8")
        program.chmod(0o755)
        return NodePolicy(may_reset_gpus=True, nvidia_smi=str(program))

    return policy


def ran(tmp_path):
    path = tmp_path / "ran"
    return path.read_text("utf-8") if path.exists() else ""


def test_a_gpu_that_needs_a_reset_says_by_which_command_and_takes_no_work(node):
    node.wish(SLICE, (1, *SLICE))
    assert node.problems() == ["reset_required"]
    assert "sudo nvidia-smi --gpu-reset -i 0" in node.sentence()
    first, second = node.reported.gpus
    assert (first.mode, first.mode_pending) == (GpuMode.WHOLE, GpuMode.MIG)
    assert not first.healthy and "Reset required" in first.health_reason
    assert second.healthy and list(node.slices(1)) == [("3g.40gb", 0)]
    assert node.reported.facts.problems == ()


def test_after_the_reset_by_hand_the_slices_are_made(node):
    node.wish(SLICE)
    with node.change() as state:
        state.gpus[0].mig_current = state.gpus[0].mig_pending
    node.live(2)
    assert node.problems() == [] and node.reported.gpus[0].healthy
    assert list(node.slices()) == [("3g.40gb", 0)]


def test_a_change_that_nobody_wants_any_more_is_taken_back(node):
    node.wish(SLICE)
    node.wish(mode=GpuMode.WHOLE)
    (gpu, _) = node.reported.gpus
    assert gpu.mode_pending is GpuMode.WHOLE and gpu.healthy and node.problems() == []


def test_a_policy_that_allows_it_has_just_this_gpu_reset(node, smi, tmp_path):
    node.begin(smi())
    node.wish(SLICE)
    assert ran(tmp_path) == node.gpu
    assert node.problems() == [] and list(node.slices()) == [("3g.40gb", 0)]
    assert "gpu.reset" in node.events()


def test_a_gpu_in_use_is_never_reset(node, smi, tmp_path):
    node.begin(smi())
    with node.change() as state:
        attach_client(state.gpus[0], 4_242)
    node.wish(SLICE)
    node.live(100, every=10)
    assert ran(tmp_path) == "" and node.problems() == ["in_use"]
    with node.change() as state:
        detach_client(state.gpus[0], 4_242)
    node.live(30)
    assert ran(tmp_path) == node.gpu and node.problems() == []


def test_a_process_that_came_meanwhile_is_not_reset_away(node, smi, tmp_path):
    node.begin(smi())
    with node.change() as state:
        attach_client(state.gpus[0], 4_242)

    def waits_for_a_reset(_, mode, status):
        status._obj.value = pynvml.NVML_ERROR_RESET_REQUIRED
        return 0

    with node.instead("nvmlDeviceSetMigMode", waits_for_a_reset):
        node.wish(SLICE, gpus=(node.gpu,))
    assert ran(tmp_path) == "" and node.problems() == ["reset_required"]
    assert "when nothing is on it" in node.sentence()


def test_a_reset_that_is_refused_makes_the_node_need_a_reboot(node, smi):
    node.begin(smi(refused=True))
    node.wish(SLICE)
    assert node.problems() == ["reboot_required"]
    (sentence,) = node.reported.facts.problems
    assert sentence.startswith("Reboot required") and "refuses to be reset" in sentence
    assert not node.reported.gpus[0].healthy and node.reported.gpus[1].healthy


def test_a_program_that_is_not_there_is_said_in_a_sentence(node, tmp_path):
    node.begin(NodePolicy(may_reset_gpus=True, nvidia_smi=str(tmp_path / "none")))
    node.wish(SLICE)
    assert "cannot be run" in node.sentence()


def passed_through(_, mode):
    mode._obj.value = PASSED_THROUGH
    return 0


def test_in_a_virtual_machine_a_reset_is_tried_and_a_reboot_asked_for_after_it(node, smi, tmp_path):
    node.begin(smi(refused=True))
    with node.instead("nvmlDeviceGetVirtualizationMode", passed_through):
        node.wish(SLICE)
    assert node.problems() == ["reboot_required"] and ran(tmp_path) == node.gpu
    assert "in a virtual machine" in node.sentence()
    with node.change() as state:
        reboot_node(state)
    node.begin()
    node.live(3)
    assert node.problems() == [] and node.reported.facts.problems == ()
    assert list(node.slices()) == [("3g.40gb", 0)]


def test_in_a_virtual_machine_that_lets_gpus_be_reset_nobody_reboots(node, smi, tmp_path):
    node.begin(smi())
    with node.instead("nvmlDeviceGetVirtualizationMode", passed_through):
        node.wish(SLICE)
    assert ran(tmp_path) == node.gpu and node.problems() == []


def test_during_a_reset_this_process_has_no_handle_and_afterwards_all_of_them(
    node, smi, monkeypatch
):
    """Events, sensors and the session itself: the driver resets no GPU that anybody has open."""
    node.begin(smi())
    hardware, sampler, held = node.node.hardware, Sampler(1.0), []
    hardware.handle_owners.append(sampler.without_handles)
    hardware.watch.start()
    sampler.start()
    until(lambda: sampler.last.number, "a reading")
    library, plain = pynvml.nvmlLib, modes.reset_gpu

    def reset(*arguments):
        held.append((library.sessions, len(library.event_sets), len(library.gpm_samples)))
        loop = threading.Thread(target=hardware.refresh)
        loop.start()
        loop.join(300)
        assert not loop.is_alive(), "a refresh does not wait for a reset"
        return plain(*arguments)

    monkeypatch.setattr(modes, "reset_gpu", reset)
    assert library.sessions == 2 and library.event_sets
    try:
        node.wish(SLICE)
        assert held == [(0, 0, 0)]
        assert node.problems() == [] and list(node.slices()) == [("3g.40gb", 0)]
        before = sampler.last.number
        until(lambda: sampler.last.number > before and library.event_sets, "events and sensors")
        assert library.sessions == 2
    finally:
        sampler.stop()
        hardware.watch.stop()


def test_a_reader_that_waits_for_a_reset_does_not_open_the_library_again(node, monkeypatch):
    """NVML counts: opened twice, it would stay open when the session closes for the next reset."""
    nvml, sessions = node.machine.nvml, pynvml.nvmlLib.sessions
    reader, waits = threading.Thread(target=nvml.devices), threading.Event()
    may_enter = gate.CallGate._may_enter

    def seen(calls, thread):
        if thread == reader.ident:
            waits.set()
        return may_enter(calls, thread)

    monkeypatch.setattr(gate.CallGate, "_may_enter", seen)
    with nvml.closed():
        reader.start()
        assert waits.wait(300)
    reader.join(300)
    assert not reader.is_alive() and pynvml.nvmlLib.sessions == sessions


def test_a_call_that_does_not_end_leaves_the_reset_to_a_person(node, smi, tmp_path, monkeypatch):
    monkeypatch.setattr(gate, "CLOSE_SECONDS", 0.01)
    node.begin(smi())
    inside, go_on = threading.Event(), threading.Event()

    def hangs():
        with nvml_errors("a call"):
            inside.set()
            go_on.wait(300)

    thread = threading.Thread(target=hangs)
    thread.start()
    try:
        assert inside.wait(300)
        node.wish(SLICE)
        assert ran(tmp_path) == "" and "does not end" in node.sentence()
        open_intents = "SELECT what FROM intents WHERE done IS NULL AND what LIKE 'reset %'"
        assert node.machine.journal._rows(open_intents) == []
    finally:
        go_on.set()
        thread.join(300)


@pytest.mark.parametrize("killed", [False, True])
@pytest.mark.parametrize(
    ("board", "piece", "keeps"), [("H200-141GB", LOW, False), (AMPERE, SLICE, True)]
)
def test_after_a_reboot_mode_and_slices_are_what_they_were(tmp_path, board, piece, keeps, killed):
    node = Carving(tmp_path, board)
    try:
        node.wish(piece)
        before = node.slices()
        with node.change() as state:
            reboot_node(state)
        assert bool(node.machine.nvml.devices()[0].mig_current) is keeps
        if killed:
            node.begin()
        node.live(3)
        after = node.slices()
        assert after.keys() == before.keys() and after != before
        assert node.problems() == [] and node.reported.gpus[0].healthy
    finally:
        node.end()


def test_a_mode_that_an_earlier_owner_left_on_is_put_right_at_the_start(tmp_path):
    node = Carving(tmp_path, AMPERE)
    try:
        node.machine.nvml.set_mig_mode(node.gpu, on=True)
        node.wish(mode=GpuMode.WHOLE)
        assert node.reported.gpus[0].mode is GpuMode.WHOLE
    finally:
        node.end()
