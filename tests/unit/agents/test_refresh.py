"""A refresh reads what changed, also beside carving, and one sick GPU is one sick GPU."""

import threading

import pynvml
import pytest

from agents.contract.documents import GpuMode, ReplicaState
from agents.nvml.errors import NvmlCode, NvmlFailure
from agents.nvml.session import Nvml
from agents.simdriver.codes import Code
from tests.support.carving import LOW, Carving
from tests.support.driver_calls import counted_calls

FULL = tuple(("1g.18gb", start, 1) for start in range(7))
FAILURES = [code for code in Code if code not in (Code.SUCCESS, Code.TIMEOUT)]


@pytest.fixture
def node(tmp_path):
    node = Carving(tmp_path, gpus=2)
    yield node
    node.end()


@pytest.fixture
def large(tmp_path):
    """Eight GPUs with seven slices each."""
    node = Carving(tmp_path, gpus=8)
    node.wish(*((index, *place) for index in range(8) for place in FULL))
    assert all(len(node.slices(index)) == 7 for index in range(8))
    yield node
    node.end()


def failing(node, symbol, code, gpu):
    """Meanwhile the symbol fails with `code` for one GPU."""
    plain = getattr(pynvml.nvmlLib, symbol)

    def answer(handle, *arguments):
        if pynvml.nvmlLib.handles.ref(handle).gpu == gpu:
            return int(code)
        return plain(handle, *arguments)

    return node.instead(symbol, answer)


@pytest.mark.parametrize("code", FAILURES, ids=str)
def test_a_gpu_whose_instances_cannot_be_read_is_unhealthy_alone(node, code):
    node.wish(LOW, (1, *LOW))
    before = node.reported.slices
    with failing(node, "nvmlDeviceGetGpuInstances", code, node.gpu):
        node.live(3)
        sick, well = node.reported.gpus
        assert not sick.healthy and "MIG instances" in sick.health_reason
        assert well.healthy and node.reported.facts.blocks == ()
        assert node.reported.slices == before, "its last known instances stay"
        assert {key[0] for key in node.node.hardware.devices()} == {well.uuid}
    node.live(3)
    assert all(gpu.healthy for gpu in node.reported.gpus)


def test_a_sick_gpu_is_not_carved_and_the_other_is(node):
    node.wish((1, *LOW))
    with failing(node, "nvmlDeviceGetGpuInstances", Code.UNKNOWN, node.gpu):
        node.live(2)
        node.wish(LOW, (1, "2g.35gb", 4, 2))
        assert list(node.slices(1)) == [("2g.35gb", 4)]
    assert node.slices() == {}
    node.live(8)
    assert list(node.slices()) == [("3g.71gb", 0)]


def test_a_handle_that_vanished_has_the_gpu_read_again(node):
    node.wish(LOW)
    plain, vanished = pynvml.nvmlLib.nvmlGpuInstanceGetInfo, [1]

    def once(*arguments):
        return int(Code.INVALID_ARGUMENT) if vanished and vanished.pop() else plain(*arguments)

    with node.instead("nvmlGpuInstanceGetInfo", once):
        node.live(len(node.machine.gpus))
    assert not vanished and all(gpu.healthy for gpu in node.reported.gpus)


def test_a_refresh_beside_a_slow_destroy_sees_no_vanished_handle_and_does_not_wait(node):
    node.wish(LOW, (1, *LOW))
    hardware, inside, go_on = node.node.hardware, threading.Event(), threading.Event()

    def slowly(seconds):
        inside.set()
        assert go_on.wait(300)

    instance = node.instance(0)
    with node.change() as state:
        state.destroy_seconds = 1.0
    pynvml.nvmlLib.sleep = slowly
    destroy = threading.Thread(
        target=hardware.nvml.destroy_instance, args=(node.gpu, instance, LOW[1:])
    )
    destroy.start()
    assert inside.wait(300)
    try:
        for _ in range(5):
            hardware.refresh()
            assert all(gpu.healthy for gpu in hardware.gpus)
            assert len(hardware.instances) == 2, "as it was before the change"
    finally:
        go_on.set()
        destroy.join(300)
    hardware.refresh_gpu(node.gpu)
    assert [i.gpu_uuid for i in hardware.instances] == [node.machine.gpus[1]]


def test_while_a_destroy_takes_time_another_reader_sees_a_handle_vanish(node):
    """The simulated driver's own promise, without which the test above could not fail."""
    node.wish(LOW)
    vanished = []

    def read_instance(_):
        gpu = pynvml.nvmlDeviceGetHandleByUUID(node.gpu)
        handle = pynvml.nvmlDeviceGetGpuInstanceById(gpu, instance)
        with pytest.raises(pynvml.NVMLError_InvalidArgument):
            pynvml.nvmlGpuInstanceGetInfo(handle)
        vanished.append(handle)

    instance = node.instance(0)
    with node.change() as state:
        state.destroy_seconds = 1.0
    pynvml.nvmlLib.sleep = read_instance
    node.machine.nvml.destroy_instance(node.gpu, instance, LOW[1:])
    assert vanished and node.slices() == {}


def test_a_refresh_of_56_slices_makes_a_tenth_of_1081_calls(large):
    hardware = large.node.hardware
    for _ in range(16):
        with counted_calls() as calls:
            hardware.refresh()
        assert calls.total() <= 108, calls


def test_a_carve_reads_its_own_gpu_only(large):
    hardware = large.node.hardware
    last = large.instance(6)
    with counted_calls() as calls:
        hardware.nvml.destroy_instance(large.gpu, last, (6, 1))
        changed = calls.total()
        hardware.refresh_gpu(large.gpu)
    assert calls.total() - changed <= 40
    assert len(hardware.instances) == 55


def test_constants_are_read_again_after_a_mode_change(node):
    node.wish(LOW)
    with counted_calls() as calls:
        node.live(2)
    assert calls["nvmlDeviceGetGpuInstanceProfileInfoV"] == 0
    node.wish(mode=GpuMode.WHOLE)
    with counted_calls() as calls:
        node.wish(LOW)
    assert calls["nvmlDeviceGetGpuInstanceProfileInfoV"] > 0


def test_a_change_by_another_tool_is_seen_within_a_turn(node):
    node.wish(LOW, (1, *LOW))
    other = Nvml()
    other.create_instance(node.gpu, 14, 4, 2)
    node.live(2)
    assert "unmanaged" in node.problems()


def test_an_instance_that_is_another_one_by_now_is_not_deleted(node):
    node.wish(LOW)
    old = node.machine.nvml.instances(node.gpu)[0]
    with pytest.raises(NvmlFailure) as failure:
        node.machine.nvml.destroy_instance(node.gpu, old.instance_id, (4, 4))
    assert failure.value.code is NvmlCode.NO_SUCH_DEVICE
    assert node.machine.nvml.instances(node.gpu) == [old]


@pytest.mark.parametrize("repeats", [False, True])
def test_a_slice_that_is_carved_again_is_given_again_whatever_its_uuid(node, repeats):
    """A replica of the old slice ends, the slice is deleted and carved anew, and the next one gets
    it: by its place, with the UUID that the driver reports now."""
    with node.change() as state:
        state.repeats_mig_uuids = repeats
    node.wish(LOW, replicas=(node.on(LOW),))
    before = node.slices()[LOW[:2]]
    node.wish(LOW)
    node.wish()
    assert node.slices() == {}
    node.wish(LOW, replicas=(node.on(LOW, id="r-2"),))
    again = node.slices()[LOW[:2]]
    assert (again == before) is repeats
    assert node.machine.runtime.devices["r-2"] == (again,)
    assert {r.id: r.state for r in node.reported.replicas}["r-2"] is ReplicaState.RUNNING
    assert node.problems() == []


@pytest.mark.parametrize(
    "symbol",
    [
        "nvmlDeviceGetMigMode",
        "nvmlDeviceGetGpuInstanceProfileInfoV",
        "nvmlGpuInstanceGetInfo",
        "nvmlGpuInstanceGetComputeInstanceProfileInfoV",
        "nvmlGpuInstanceGetComputeInstances",
        "nvmlComputeInstanceGetInfo_v2",
        "nvmlDeviceGetUUID",
        "nvmlDeviceGetComputeRunningProcesses_v3",
        "nvmlDeviceGetRemappedRows",
    ],
)
def test_whatever_fails_for_one_gpu_is_no_matter_of_the_other(node, symbol):
    """Every call of a refresh, with every error: the other GPU is carved as ever, nothing of the
    sick one is deleted, and afterwards all is as before."""
    node.wish(LOW, (1, *LOW))
    before = node.slices()
    for code in FAILURES:
        with failing(node, symbol, code, node.gpu):
            node.live(2)
            node.wish(LOW, (1, *LOW), (1, "1g.18gb", 6, 1))
            assert node.node.hardware.gpus[1].healthy and len(node.slices(1)) == 2, code
            assert node.reported.facts.blocks == ()
            node.wish(LOW, (1, *LOW))
            assert len(node.slices(1)) == 1, code
        node.live(3)
        assert node.slices() == before, code
        assert all(gpu.healthy for gpu in node.reported.gpus), code
        assert {s.gpu_uuid for s in node.reported.slices} == set(node.machine.gpus), code


def test_an_agent_that_starts_beside_a_sick_gpu_serves_the_other(node):
    node.wish(LOW, (1, *LOW))
    with failing(node, "nvmlDeviceGetGpuInstances", Code.RESET_REQUIRED, node.gpu):
        node.begin()
        node.live(3)
        sick, well = node.reported.gpus
        assert not sick.healthy and well.healthy
        assert [s.gpu_uuid for s in node.reported.slices] == [well.uuid]
    node.live(3)
    assert len(node.reported.slices) == 2 and node.slices() and node.problems() == []
