"""Event sets and the reading of health through pynvml: of the simulated driver, and with `-m gpu`
of the machine's own. What needs a fault is asked of the simulated one alone."""

import pynvml
import pytest

from agents.facts.gpu_health import EventKind, HealthReadings
from agents.health.verdict import assess
from agents.nvml.errors import NvmlCode, NvmlFailure
from agents.nvml.health import EventSet, read_health
from agents.nvml.session import Nvml
from agents.simdriver.faults import inject_ecc
from agents.simdriver.health import clear_health, inject_lost, inject_xid
from tests.contract.drivers import WITH_MIG, WITHOUT_MIG, handle, real, simulated

NONE = 0xFFFFFFFF
ANY = pynvml.nvmlEventTypeXidCriticalError


@pytest.fixture(params=[*WITH_MIG, WITHOUT_MIG, pytest.param("real", marks=pytest.mark.gpu)])
def nvml(request, tmp_path):
    if request.param == "real":
        with real() as session:
            yield session
        return
    with simulated(tmp_path / "driver.json", request.param) as node:
        yield node.nvml


@pytest.fixture
def node(tmp_path):
    with simulated(tmp_path / "driver.json", WITH_MIG[0]) as node:
        yield node


@pytest.fixture
def events(node):
    events = EventSet()
    yield events
    events.close()


def refused(call, *arguments):
    with pytest.raises(pynvml.NVMLError) as refusal:
        call(*arguments)
    return refusal.value.value


def an_xid(node, xid, index=0, *instance):
    with node.change() as state:
        inject_xid(state, state.gpus[index], xid, *instance)


def test_every_gpu_of_a_data_centre_tells_its_xids(nvml: Nvml):
    for gpu in nvml.devices():
        assert pynvml.nvmlDeviceGetSupportedEventTypes(handle(gpu.uuid)) & ANY


def test_a_set_listens_to_every_gpu_and_is_silent_where_nothing_happens(nvml: Nvml):
    events = EventSet()
    try:
        assert events.gpus == {gpu.uuid for gpu in nvml.devices()}
        assert events.wait(1) is None
    finally:
        events.close()


def test_a_type_that_a_gpu_has_not_is_refused(nvml: Nvml):
    gpu = handle(nvml.devices()[0].uuid)
    events = pynvml.nvmlEventSetCreate()
    try:
        unknown = 1 << 62
        code = refused(pynvml.nvmlDeviceRegisterEvents, gpu, unknown, events)
        assert code in (pynvml.NVML_ERROR_NOT_SUPPORTED, pynvml.NVML_ERROR_INVALID_ARGUMENT)
    finally:
        pynvml.nvmlEventSetFree(events)


def test_a_gpu_at_rest_reads_as_healthy(nvml: Nvml):
    for gpu in nvml.devices():
        reads = read_health(gpu)
        assert reads is not None and not reads.is_lost and not reads.driver_error
        assert assess([], reads).healthy


def test_a_gpu_of_another_uuid_at_the_same_place_is_another_gpu(node):
    first, second = node.nvml.devices()
    assert read_health(first) is not None
    with node.change() as state:
        state.gpus[0].uuid = "GPU-another"
    assert read_health(first) is None
    assert read_health(second) is not None


def test_what_happened_before_the_set_was_made_is_not_heard(node):
    an_xid(node, 31)
    events = EventSet()
    assert events.wait(1) is None
    events.close()


def test_each_xid_is_told_once_with_its_gpu_and_no_instance(node, events):
    an_xid(node, 31, 1)
    told = events.wait(1)
    assert (told.gpu_uuid, told.kind, told.xid) == (
        node.nvml.devices()[1].uuid,
        EventKind.XID,
        31,
    )
    assert (told.gpu_instance, told.compute_instance) == (None, None)
    assert events.wait(1) is None


def test_every_set_is_told(node, events):
    other = EventSet()
    an_xid(node, 43)
    assert events.wait(1) == other.wait(1) is not None
    other.close()


def test_an_xid_on_any_slice_of_a_gpu_names_that_slice(node, events):
    node.nvml.set_mig_mode(node.gpu, on=True)
    profile = next(p for p in node.board.profiles if p.memory_slices == 1)
    made = [node.nvml.create_instance(node.gpu, profile.id, s, 1) for s in profile.starts[:3]]
    for instance in made:
        an_xid(node, 94, 0, instance.instance_id, 0)
    told = [events.wait(1) for _ in made]
    assert [(t.gpu_instance, t.compute_instance) for t in told] == [
        (instance.instance_id, 0) for instance in made
    ]


def test_memory_errors_are_told_by_kind(node, events):
    with node.change() as state:
        inject_ecc(state, state.gpus[0], 1, corrected=True)
        inject_ecc(state, state.gpus[0], 1, corrected=False)
    assert [events.wait(1).kind for _ in range(2)] == [
        EventKind.ECC_CORRECTED,
        EventKind.ECC_UNCORRECTED,
    ]


def test_the_raw_event_has_the_fields_of_the_header(node, events):
    an_xid(node, 43, 1)
    data = pynvml.nvmlEventSetWait_v2(events._set, 1)
    assert pynvml.nvmlDeviceGetUUID(data.device) == node.nvml.devices()[1].uuid
    assert (data.eventType, data.eventData) == (ANY, 43)
    assert (data.gpuInstanceId, data.computeInstanceId) == (NONE, NONE)


def test_a_lost_gpu_ends_the_wait_after_the_last_word_and_is_left_out_of_the_next_set(node, events):
    lost, other = node.nvml.devices()
    an_xid(node, 79)
    assert events.wait(1).xid == 79
    with pytest.raises(NvmlFailure) as failure:
        events.wait(1)
    assert failure.value.code is NvmlCode.GPU_LOST
    following = EventSet()
    assert following.gpus == {other.uuid}
    assert following.wait(1) is None
    following.close()
    assert read_health(lost) == HealthReadings(is_lost=True)
    assert read_health(other) is not None and not read_health(other).is_lost


def test_a_reset_takes_faults_away_and_the_gpu_is_listened_to_again(node):
    with node.change() as state:
        inject_lost(state.gpus[0])
    with node.change() as state:
        clear_health(state, state.gpus[0])
    events = EventSet()
    assert len(events.gpus) == 2
    assert all(assess([], read_health(gpu)).healthy for gpu in node.nvml.devices())
    events.close()


@pytest.mark.parametrize("xid", [48, 63, 64, 95])
def test_a_fault_of_memory_stands_in_the_counters(node, xid):
    an_xid(node, xid)
    first, second = node.nvml.devices()
    assert not assess([], read_health(first)).healthy
    assert assess([], read_health(second)).healthy


def test_rows_do_not_answer_while_instances_stand(node):
    an_xid(node, 63)
    first = node.nvml.devices()[0]
    assert read_health(first).remap_pending is True
    node.nvml.set_mig_mode(first.uuid, on=True)
    node.nvml.create_instance(first.uuid, 19, 0, 1)
    assert read_health(first).remap_pending is None


def test_a_set_that_was_freed_is_refused(node):
    events = EventSet()
    events.close()
    for call in (pynvml.nvmlEventSetFree, lambda e: pynvml.nvmlEventSetWait_v2(e, 1)):
        assert refused(call, events._set) == pynvml.NVML_ERROR_INVALID_ARGUMENT
