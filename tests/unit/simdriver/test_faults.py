"""`agents simulate inject`: what it does to the calls of a driver that another process has open."""

from ctypes import byref, c_uint

import pynvml
import pytest

from agents.__main__ import main
from agents.simdriver.codes import Code
from agents.simdriver.library import Library
from agents.simdriver.state import node_from_json, node_to_json
from tests.contract.drivers import simulated

HOLDER = 4_242


def code_of(call, *arguments) -> int:
    try:
        call(*arguments)
    except pynvml.NVMLError as refused:
        return refused.value
    return Code.SUCCESS


@pytest.fixture
def inject(node, capsys, monkeypatch):
    """Run the command with words, on the node that the setting names."""
    monkeypatch.setenv("TESSERA_SIMULATED_DRIVER", str(node.store.path))

    def run(words: str) -> str:
        """What it says to refuse; empty where it happened."""
        try:
            assert main(["simulate", "inject", *words.split()]) == 0
        except SystemExit as ended:
            assert ended.code == 2
        return capsys.readouterr().err

    return run


@pytest.fixture
def instance(node, gpu):
    made = pynvml.nvmlDeviceCreateGpuInstance(gpu, 19)
    pynvml.nvmlGpuInstanceCreateComputeInstance(made, 0)
    return made


def number_of(instance) -> int:
    return pynvml.nvmlGpuInstanceGetInfo(instance).id


def compute_of(instance):
    return pynvml.nvmlGpuInstanceGetComputeInstanceById(instance, 0)


def test_an_xid_with_its_instance_is_heard_by_who_listens(inject, gpu, instance):
    events = pynvml.nvmlEventSetCreate()
    pynvml.nvmlDeviceRegisterEvents(gpu, pynvml.nvmlEventTypeXidCriticalError, events)
    assert inject(f"xid 31 --gpu 0 --instance {number_of(instance)} --compute 0") == ""
    heard = pynvml.nvmlEventSetWait(events, 0)
    assert (heard.eventData, heard.gpuInstanceId) == (31, number_of(instance))


def test_a_gpu_is_lost_until_it_is_cleared(inject, gpu):
    assert inject("lost --gpu 0") == ""
    assert code_of(pynvml.nvmlDeviceGetName, gpu) == Code.GPU_IS_LOST
    assert inject("clear --gpu 0") == ""
    assert code_of(pynvml.nvmlDeviceGetName, gpu) == Code.SUCCESS


def test_clearing_leaves_instances_and_holders_alone(inject, node, gpu, instance):
    inject(f"hold --gpu 0 --pid {HOLDER} --instance {number_of(instance)}")
    inject("ecc --gpu 0 --corrected --count 3")
    inject("clear --gpu 0")
    seen = node.store.node().gpus[0]
    assert len(seen.instances) == 1 and [p.pid for p in seen.processes] == [HOLDER]
    assert seen.ecc_corrected == 0


def test_who_has_a_whole_gpu_open_keeps_it_as_it_is_until_the_release(inject, gpu):
    assert inject(f"hold --gpu 0 --pid {HOLDER}") == ""
    assert code_of(pynvml.nvmlDeviceCreateGpuInstance, gpu, 19) == Code.IN_USE
    assert pynvml.nvmlDeviceSetMigMode(gpu, 0) == Code.IN_USE
    assert pynvml.nvmlDeviceGetComputeRunningProcesses(gpu) == [], "a monitor is no process"
    assert inject(f"release --gpu 0 --pid {HOLDER}") == ""
    assert pynvml.nvmlDeviceSetMigMode(gpu, 0) == Code.SUCCESS


def test_who_has_a_gpu_open_without_mig_is_among_its_processes(inject, gpu):
    pynvml.nvmlDeviceSetMigMode(gpu, 0)
    inject(f"hold --gpu 0 --pid {HOLDER}")
    assert [p.pid for p in pynvml.nvmlDeviceGetComputeRunningProcesses(gpu)] == [HOLDER]
    assert pynvml.nvmlDeviceSetMigMode(gpu, 1) == Code.IN_USE
    assert pynvml.nvmlDeviceGetMigMode(gpu) == [0, 1]


@pytest.mark.parametrize(("how", "seen"), [("", [HOLDER]), ("--unlisted", [])])
def test_a_process_or_a_leaked_handle_on_an_instance_keeps_it(inject, gpu, instance, how, seen):
    assert inject(f"hold --gpu 0 --pid {HOLDER} --instance {number_of(instance)} {how}") == ""
    compute = compute_of(instance)
    assert code_of(pynvml.nvmlComputeInstanceDestroy, compute) == Code.IN_USE
    assert [p.pid for p in pynvml.nvmlDeviceGetComputeRunningProcesses(gpu)] == seen
    inject(f"release --gpu 0 --pid {HOLDER}")
    assert code_of(pynvml.nvmlComputeInstanceDestroy, compute) == Code.SUCCESS
    assert code_of(pynvml.nvmlGpuInstanceDestroy, instance) == Code.SUCCESS


@pytest.mark.parametrize("node", ["A100-80GB"], indirect=True)
def test_where_the_reset_is_refused_ampere_keeps_the_mode_pending_until_the_reboot(inject, gpu):
    assert inject("reset-refused --gpu 0") == ""
    assert pynvml.nvmlDeviceSetMigMode(gpu, 0) == Code.RESET_REQUIRED
    assert pynvml.nvmlDeviceGetMigMode(gpu) == [1, 0]
    assert "reboot" in inject("reset --gpu 0")
    assert inject("reboot") == ""
    assert pynvml.nvmlDeviceGetMigMode(gpu) == [0, 0]


def test_hopper_needs_no_reset_so_none_can_be_refused(inject, gpu):
    inject("reset-refused --gpu 0")
    assert pynvml.nvmlDeviceSetMigMode(gpu, 0) == Code.SUCCESS
    assert pynvml.nvmlDeviceGetMigMode(gpu) == [0, 0]


@pytest.mark.parametrize("node", ["A100-80GB"], indirect=True)
def test_a_mode_that_waited_for_a_busy_gpu_comes_with_the_reset(inject, gpu, instance):
    inject(f"hold --gpu 0 --pid {HOLDER}")
    assert pynvml.nvmlDeviceSetMigMode(gpu, 0) == Code.IN_USE
    assert str(HOLDER) in inject("reset --gpu 0")
    inject(f"release --gpu 0 --pid {HOLDER}")
    assert inject("reset --gpu 0") == ""
    assert pynvml.nvmlDeviceGetMigMode(gpu) == [0, 0]
    assert code_of(pynvml.nvmlGpuInstanceGetInfo, instance) == Code.INVALID_ARGUMENT


@pytest.mark.parametrize(
    ("node", "mode"), [("A100-80GB", 1), ("A30-24GB", 1), ("H200-141GB", 0)], indirect=["node"]
)
def test_a_reboot_takes_the_instances_everywhere_and_the_mode_from_hopper_on(
    inject, node, gpu, mode
):
    pynvml.nvmlDeviceCreateGpuInstance(gpu, 14)
    inject(f"hold --gpu 0 --pid {HOLDER}")
    uuid = pynvml.nvmlDeviceGetUUID(gpu)
    assert inject("reboot") == ""
    seen = node.store.node().gpus[0]
    assert (seen.instances, seen.is_open, seen.uuid) == ([], False, uuid)
    assert pynvml.nvmlDeviceGetMigMode(gpu) == [mode, mode]


def test_uncorrected_and_corrected_errors_are_counted_apart_and_told_as_events(inject, gpu):
    events = pynvml.nvmlEventSetCreate()
    both = pynvml.nvmlEventTypeSingleBitEccError | pynvml.nvmlEventTypeDoubleBitEccError
    pynvml.nvmlDeviceRegisterEvents(gpu, both, events)
    inject("ecc --gpu 0 --count 2")
    inject("ecc --gpu 0 --count 5 --corrected")
    assert [errors(gpu, uncorrected) for uncorrected in (1, 0)] == [2, 5]
    kinds = [pynvml.nvmlEventSetWait(events, 0).eventType for _ in range(2)]
    assert kinds == [
        pynvml.nvmlEventTypeDoubleBitEccError,
        pynvml.nvmlEventTypeSingleBitEccError,
    ]


def errors(gpu, uncorrected: int) -> int:
    return pynvml.nvmlDeviceGetTotalEccErrors(gpu, uncorrected, pynvml.NVML_VOLATILE_ECC)


def test_a_row_waits_to_be_remapped_or_could_not_be(inject, gpu):
    inject("remap --gpu 0")
    assert list(pynvml.nvmlDeviceGetRemappedRows(gpu))[2:] == [1, 0]
    inject("remap --gpu 0 --failed")
    assert list(pynvml.nvmlDeviceGetRemappedRows(gpu))[2:] == [1, 1]


def test_turing_remaps_no_rows(inject, node):
    with node.change() as state:
        state.gpus[0].board = "T4-16GB"
    assert "does not remap" in inject("remap --gpu 0")


def test_a_slow_call_takes_its_time_and_others_do_not(inject, gpu, monkeypatch):
    slept: list[float] = []
    monkeypatch.setattr(pynvml.nvmlLib, "sleep", slept.append)
    assert inject("slow nvmlDeviceGetHandleByUUID 10") == ""
    pynvml.nvmlDeviceGetName(gpu)
    assert sum(slept) == 0
    pynvml.nvmlDeviceGetHandleByUUID(pynvml.nvmlDeviceGetUUID(gpu))
    assert sum(slept) == 10
    assert inject("slow nvmlDeviceGetHandleByUUID 0") == ""
    pynvml.nvmlDeviceGetHandleByUUID(pynvml.nvmlDeviceGetUUID(gpu))
    assert sum(slept) == 10


@pytest.mark.parametrize(
    ("kind", "call"),
    [
        ("read", lambda gpu: pynvml.nvmlDeviceGetMemoryInfo(gpu)),
        ("create", lambda gpu: pynvml.nvmlDeviceCreateGpuInstance(gpu, 19)),
        ("mode", lambda gpu: pynvml.nvmlDeviceSetMigMode(gpu, 1)),
        ("any", lambda gpu: pynvml.nvmlSystemGetDriverVersion()),
    ],
)
def test_all_calls_of_a_kind_can_be_slow(inject, gpu, monkeypatch, kind, call):
    slept: list[float] = []
    inject(f"slow {kind} 3")
    monkeypatch.setattr(pynvml.nvmlLib, "sleep", slept.append)
    call(gpu)
    assert sum(slept) == 3


def test_destroying_is_a_kind_of_its_own(inject, instance, monkeypatch):
    slept: list[float] = []
    inject("slow destroy 2")
    monkeypatch.setattr(pynvml.nvmlLib, "sleep", slept.append)
    pynvml.nvmlComputeInstanceDestroy(compute_of(instance))
    pynvml.nvmlGpuInstanceDestroy(instance)
    assert sum(slept) == 4


def test_the_next_calls_fail_as_ordered_and_do_nothing_else(inject, node, gpu):
    assert inject("fail-next IN_USE nvmlDeviceCreateGpuInstance --times 2") == ""
    asked = [code_of(pynvml.nvmlDeviceCreateGpuInstance, gpu, 19) for _ in range(3)]
    assert asked == [Code.IN_USE, Code.IN_USE, Code.SUCCESS]
    assert len(node.store.node().gpus[0].instances) == 1


def test_a_reading_call_and_the_beginning_of_a_session_can_fail_too(inject, gpu):
    inject("fail-next NVML_ERROR_UNKNOWN nvmlDeviceGetUUID")
    inject("fail-next 999 nvmlInitWithFlags")
    uuids = [code_of(pynvml.nvmlDeviceGetUUID, gpu) for _ in range(2)]
    inits = [code_of(pynvml.nvmlInit) for _ in range(2)]
    assert uuids == inits == [Code.UNKNOWN, Code.SUCCESS]


def test_a_failure_that_was_ordered_can_be_taken_back(inject, gpu):
    inject("fail-next TIMEOUT nvmlDeviceGetName --times 9")
    inject("fail-next TIMEOUT nvmlDeviceGetName --times 0")
    assert code_of(pynvml.nvmlDeviceGetName, gpu) == Code.SUCCESS


def test_who_is_not_root_changes_nothing_and_reads_everything(inject, node, gpu, instance):
    compute = compute_of(instance)
    assert inject("non-root") == ""
    before = node.store.path.read_bytes()
    assert code_of(pynvml.nvmlDeviceSetMigMode, gpu, 0) == Code.NO_PERMISSION
    assert code_of(pynvml.nvmlDeviceCreateGpuInstance, gpu, 19) == Code.NO_PERMISSION
    assert code_of(pynvml.nvmlComputeInstanceDestroy, compute) == Code.NO_PERMISSION
    assert code_of(pynvml.nvmlGpuInstanceDestroy, instance) == Code.NO_PERMISSION
    create = pynvml.nvmlGpuInstanceCreateComputeInstance
    assert code_of(create, instance, 0) == Code.NO_PERMISSION
    assert code_of(pynvml.nvmlDeviceGetMemoryInfo, gpu) == Code.SUCCESS
    assert node.store.path.read_bytes() == before
    assert inject("root") == ""
    assert code_of(pynvml.nvmlComputeInstanceDestroy, compute) == Code.SUCCESS


@pytest.mark.parametrize(
    ("words", "why"),
    [
        ("lost --gpu 2", "the node has 2"),
        ("xid 31 --gpu 0 --instance 5", "no instance 5"),
        ("xid 0 --gpu 0", "1..999"),
        (f"hold --gpu 0 --pid {HOLDER} --instance 5", "no instance 5"),
        (f"hold --gpu 0 --pid {HOLDER} --compute 0", "--instance"),
        ("hold --gpu 0 --pid 0", "less than 1"),
        ("hold --gpu 0", "--pid"),
        (f"release --gpu 0 --pid {HOLDER}", "does not have GPU 0 open"),
        ("ecc --gpu 0 --count 0", "less than 1"),
        ("slow nvmlDeviceGetLuck 3", "neither a call"),
        ("slow read -1", "-1"),
        ("slow read nan", "3600"),
        ("fail-next LUCK nvmlDeviceGetName", "IN_USE"),
        ("fail-next IN_USE nvmlDeviceGetLuck", "not a call"),
        ("fail-next SUCCESS nvmlDeviceGetName", "not a failure"),
        ("flood --gpu 0", "flood"),
    ],
)
def test_what_cannot_happen_is_refused_with_a_sentence(inject, node, words, why):
    before = node.store.path.read_bytes()
    assert why in inject(words)
    assert node.store.path.read_bytes() == before


def test_a_pid_holds_a_gpu_only_once(inject, node):
    inject(f"hold --gpu 0 --pid {HOLDER}")
    assert "already" in inject(f"hold --gpu 0 --pid {HOLDER}")


def test_a_board_without_ecc_events_has_none(inject, node):
    with node.change() as state:
        state.gpus[0].event_types = 0
    assert "no ECC" in inject("ecc --gpu 0")


def test_every_fault_is_explained(capsys):
    with pytest.raises(SystemExit):
        main(["simulate", "inject", "--help"])
    said = capsys.readouterr().out
    for fault in ("xid", "lost", "clear", "hold", "reset-refused", "slow", "ecc", "remap",
                  "fail-next", "non-root", "root", "release", "reset", "reboot"):  # fmt: skip
        (line,) = (line for line in said.splitlines() if line.split()[:1] == [fault])
        assert len(line.split()) > 3 or said.splitlines()[said.splitlines().index(line) + 1]


def test_a_second_process_with_the_same_node_finds_the_fault(inject, node, gpu):
    other = Library(node.store.path)
    inject("fail-next IN_USE nvmlDeviceGetCount_v2")
    other.nvmlInitWithFlags(0)
    count = c_uint()
    asked = [other.nvmlDeviceGetCount_v2(byref(count)) for _ in range(2)]
    assert asked == [Code.IN_USE, Code.SUCCESS]


NEW_FIELDS = {"slow", "fail_next", "holders", "reset_refused", "ecc_corrected", "start", "listed"}


def without_new(data):
    if isinstance(data, dict):
        kept = {k: without_new(v) for k, v in data.items()}
        return {
            k: v
            for k, v in kept.items()
            if k not in NEW_FIELDS or (k == "start" and "size" in data)
        }
    return [without_new(one) for one in data] if isinstance(data, list) else data


def test_a_file_of_before_these_faults_is_still_read(tmp_path):
    with simulated(tmp_path / "driver.json", "H200-141GB") as node:
        node.nvml.set_mig_mode(node.gpu, on=True)
        gpu = pynvml.nvmlDeviceGetHandleByUUID(node.gpu)
        made = pynvml.nvmlDeviceCreateGpuInstance(gpu, 9)
        for profile in (1, 0):
            pynvml.nvmlGpuInstanceCreateComputeInstance(made, profile)
        now = node.store.node()
    old = without_new(node_to_json(now))
    assert old != node_to_json(now)
    assert node_from_json(old) == now
