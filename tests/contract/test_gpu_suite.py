"""`make test-gpu` proven without a GPU: a simulated node stands where the real one would.

The twin is always simulated, in another process; so what is doctored here is "the real board".
"""

import os
import sys
from pathlib import Path

import pytest

from tests.contract.drivers import simulated, smallest
from tests.contract.gpu_suite import a_node, ran

NO_LIBRARY = """
import pynvml
def absent(*named):
    raise OSError("no such library")
pynvml.CDLL = absent
"""
# Another table than the twin's, in this process alone.
ANOTHER_PROFILE = """
from dataclasses import replace
from agents.contract.boards import known_boards
def another(profile_id, **other):
    board = known_boards()["H200-141GB"]
    profiles = tuple(replace(p, **other) if p.id == profile_id else p for p in board.profiles)
    known_boards()[board.key] = replace(board, profiles=profiles)
"""
# A driver whose call of that name ends with a code, or tells another name of the board.
ANOTHER_DRIVER = """
from agents.simdriver import library
made = library.Library.__init__
def make(self, state):
    made(self, state)
    doctor(self)
library.Library.__init__ = make
"""


@pytest.mark.parametrize(
    ("board", "gpus", "layout"),
    [
        ("H200-141GB", 1, "flat"),
        ("H200-141GB", 8, "h200-nvswitch-8"),
        ("A100-80GB", 8, "a100-nvswitch-8"),
        ("A100-40GB", 1, "flat"),
        ("L40S-48GB", 4, "l40s-pcie-4"),
    ],
)
def test_a_node_as_we_believe_it_to_be_passes_and_differs_in_nothing(tmp_path, board, gpus, layout):
    done = ran(tmp_path, store=a_node(tmp_path, board, gpus, layout))
    assert done.checks("failed") == [], done.out
    assert done.differences == {}
    assert done.status == 0
    assert done.report["counts"]["passed"] > 50 * gpus
    assert "0 differences from the simulated board" in done.err
    assert str(tmp_path / "out" / "test-gpu.json") in done.err


def test_a_node_in_mig_mode_with_an_instance_passes_and_keeps_it(tmp_path):
    with simulated(tmp_path / "driver.json", "H200-141GB", gpus=1) as node:
        profile, size = smallest(node.board)
        node.nvml.set_mig_mode(node.gpu, on=True)
        node.nvml.create_instance(node.gpu, profile, 0, size)
    with node.change() as changed:
        changed.is_root = os.geteuid() == 0
    before = node.store.path.read_bytes()
    done = ran(tmp_path, store=node.store)
    assert (done.status, done.differences) == (0, {}), done.out
    assert len(done.report["reading"]["gpus"][0]["instances"]) == 1
    assert node.store.path.read_bytes() == before


def test_a_placement_that_our_table_has_not_fails_and_is_named(tmp_path):
    doctoring = ANOTHER_PROFILE + "another(9, starts=(0, 2))"
    done = ran(tmp_path, store=a_node(tmp_path), doctoring=doctoring)
    found = done.differences["gpus.0.profiles.9.places"]
    assert (found["real"], found["simulated"]) == ([[0, 4], [2, 4]], [[0, 4], [4, 4]])
    assert found["geometry"] is True
    assert "test_the_geometry_is_that_of_our_table" in done.checks("failed")
    assert done.status == 1
    assert "gpus.*.profiles.9.places: real [[0, 4], [2, 4]]" in done.err


def test_another_size_of_a_slice_is_named_but_is_no_failure(tmp_path):
    doctoring = ANOTHER_PROFILE + "another(19, memory_mib=16_128)"
    done = ran(tmp_path, store=a_node(tmp_path), doctoring=doctoring)
    assert [*done.differences] == ["gpus.0.profiles.19.memory_mib"]
    assert done.differences["gpus.0.profiles.19.memory_mib"]["real"] == 16_128
    assert done.status == 0


def test_a_measurement_that_this_driver_refuses_is_named(tmp_path):
    doctoring = ANOTHER_DRIVER + "def doctor(l): l.nvmlDeviceGetPowerUsage = lambda *a: 3"
    done = ran(tmp_path, store=a_node(tmp_path), doctoring=doctoring)
    found = done.differences["gpus.0.telemetry.power_mw"]
    assert (found["real"], found["simulated"]) == ("NOT_SUPPORTED", "SUCCESS")
    assert done.checks("failed") == ["test_what_the_agent_cannot_do_without_is_answered"]
    assert done.status == 1


def test_what_the_agent_is_refused_fails_with_the_drivers_word_and_the_rest_is_read(tmp_path):
    symbol = "nvmlDeviceGetGpuInstanceProfileInfoV"
    doctoring = ANOTHER_DRIVER + f"def doctor(l): l.{symbol} = lambda *a: 4"
    done = ran(tmp_path, store=a_node(tmp_path), doctoring=doctoring)
    assert "Insufficient Permissions" in done.report["reading"]["refusals"]["gpus.0.profiles"]
    assert "test_nothing_that_the_agent_reads_is_refused" in done.checks("failed")
    assert "test_every_gpu_that_is_counted_answers" in done.checks("passed")
    assert done.status == 1


def test_a_gpu_that_is_lost_fails_one_check_and_the_others_are_read(tmp_path):
    store = a_node(tmp_path, gpus=2)
    with store.change() as node:
        node.gpus[1].lost = True
    done = ran(tmp_path, store=store)
    assert done.checks("failed") == ["test_every_gpu_that_is_counted_answers"]
    assert (done.status, done.differences) == (1, {})


def test_a_board_that_we_do_not_know_is_read_and_named(tmp_path):
    doctoring = ANOTHER_DRIVER + (
        "def doctor(l):\n"
        "    def name(gpu, buffer, size): buffer.value = b'NVIDIA H999'; return 0\n"
        "    l.nvmlDeviceGetName = name"
    )
    done = ran(tmp_path, store=a_node(tmp_path), doctoring=doctoring)
    assert done.differences["gpus.0.board"]["real"] == "NVIDIA H999"
    assert done.status == 0, done.out


def test_a_setting_that_changes_while_the_suite_runs_is_told_and_fails(tmp_path):
    store = a_node(tmp_path)
    meddler = tmp_path / "check_meddler.py"
    meddler.write_text(
        "from pathlib import Path\n"
        "from agents.simdriver.store import Store\n"
        "def test_somebody_asks_for_mig():\n"
        f"    with Store(Path({str(store.path)!r})).change() as node:\n"
        "        node.gpus[0].mig_pending = 1\n"
    )
    done = ran(tmp_path, str(meddler), store=store)
    assert done.status == 1
    (said,) = done.report["changed_meanwhile"]
    assert "mig_mode changed meanwhile" in said and said in done.err


@pytest.mark.parametrize(
    "call",
    [
        "pynvml.nvmlDeviceSetMigMode(gpu, 1)",
        "pynvml._nvmlGetFunctionPointer('nvmlDeviceSetMigMode')(gpu, 1, None)",
        "pynvml.nvmlLib.nvmlDeviceSetMigMode(gpu, 1, None)",
    ],
)
def test_a_check_that_tries_to_change_the_gpu_fails_and_changes_nothing(tmp_path, call):
    store = a_node(tmp_path)
    before = store.path.read_bytes()
    meddler = tmp_path / "check_meddler.py"
    meddler.write_text(
        "import pynvml\n"
        "def test_meddle():\n"
        "    pynvml.nvmlInit()\n"
        "    gpu = pynvml.nvmlDeviceGetHandleByIndex(0)\n"
        "    try:\n"
        f"        {call}\n"
        "    except BaseException:\n"
        "        pass\n"
        "    pynvml.nvmlShutdown()\n"
    )
    done = ran(tmp_path, str(meddler), store=store)
    assert done.checks("failed") == ["test_meddle"]
    assert "nvmlDeviceSetMigMode" in done.out
    assert done.status == 1
    assert store.path.read_bytes() == before


def test_a_daemon_of_mps_is_asked_where_the_program_is_there(tmp_path):
    program = tmp_path / "bin" / "nvidia-cuda-mps-control"
    program.parent.mkdir()
    fake = Path(__file__).parents[1] / "unit" / "gpu_suite" / "control.py"
    program.write_text(f"#!{sys.executable}\n{fake.read_text()}")
    program.chmod(0o755)
    path = str(program.parent)
    done = ran(tmp_path, "-k", "check_mps", store=a_node(tmp_path), PATH=path)
    assert (done.status, done.report["counts"]["passed"]) == (0, 5), done.out


def test_without_the_program_of_mps_the_reason_is_told(tmp_path):
    done = ran(tmp_path, "-k", "check_mps", store=a_node(tmp_path), PATH=str(tmp_path))
    reasons = {told["reason"] for told in done.report["checks"].values()}
    assert reasons == {"Skipped: this machine has no nvidia-cuda-mps-control"}


def test_without_a_driver_it_says_so_in_one_sentence_and_never_passes(tmp_path):
    done = ran(tmp_path, store=None, doctoring=NO_LIBRARY)
    assert done.status == 3
    assert done.err.startswith("No NVIDIA driver answers on this machine")
    assert done.err.count("\n") == 1
    assert (done.out, done.report) == ("", {})


def test_a_simulated_driver_in_the_environment_is_not_taken_for_a_real_one(tmp_path):
    state = str(a_node(tmp_path).path)
    done = ran(tmp_path, store=None, doctoring=NO_LIBRARY, TESSERA_SIMULATED_DRIVER=state)
    assert done.status == 3


def test_a_run_that_checks_nothing_does_not_pass(tmp_path):
    done = ran(tmp_path, "-k", "no_check_has_this_name", store=a_node(tmp_path))
    assert done.status == 2


def test_a_simulated_node_is_announced_as_one(tmp_path):
    done = ran(tmp_path, "-k", "versions", store=a_node(tmp_path))
    assert done.report["simulated"] is True
    assert "proves the suite, and no GPU" in done.err
