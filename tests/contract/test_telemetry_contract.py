"""What sensors tell, asked of the simulated driver for every kind of board, and with `-m gpu` of
the machine's own. A number is one that can be, or it is missing with a reason, and never 0."""

import contextlib
import threading
from dataclasses import fields

import pynvml
import pytest

from agents.contract.boards import known_boards
from agents.contract.codec import decode, encode
from agents.contract.telemetry import GpuSample, MissingReason, SliceSample
from agents.nvml.telemetry import Sensors
from agents.simdriver.layouts import LAYOUTS
from agents.simdriver.state import SimulatedProcess, new_node
from agents.telemetry.sampler import Sampler
from tests.contract.drivers import real, simulated, smallest

BOARDS = ("H200-141GB", "B200-180GB", "A100-80GB", "A30-24GB", "L40S-48GB")
ACTIVE = ("active_percent", "sm_active_percent")
PLAIN = {"uuid", "slices", "missing", "instance", "profile"}


def numbers(kind: type) -> set[str]:
    return {f.name for f in fields(kind)} - PLAIN


class Clock:
    """The simulated driver's time, moved by hand."""

    def __init__(self, now: float = 1_000_000.0) -> None:
        self.now = now
        pynvml.nvmlLib.meters.clock = lambda: self.now


@pytest.fixture
def at(tmp_path):
    """A simulated node of one GPU (or more), and its sensors: closed in the other order."""
    with contextlib.ExitStack() as open_:

        def simulate(board: str, gpus: int = 1):
            node = open_.enter_context(simulated(tmp_path / "driver.json", board, gpus))
            return node, Clock(), open_.enter_context(contextlib.closing(Sensors()))

        yield simulate


@pytest.fixture(params=[*BOARDS, pytest.param("real", marks=pytest.mark.gpu)])
def looked(request, tmp_path):
    """Two looks at a driver, and its session."""
    if request.param == "real":
        with real() as nvml:
            sensors = Sensors()
            sensors.sample()
            yield sensors.sample(), nvml
            sensors.close()
        return
    with simulated(tmp_path / "driver.json", request.param) as node:
        clock, sensors = Clock(), Sensors()
        sensors.sample()
        clock.now += 10
        yield sensors.sample(), node.nvml
        sensors.close()


def begin(node, pid: int = 4_242, mib: int = 1_000, **where) -> None:
    with node.change() as state:
        state.gpus[0].processes.append(SimulatedProcess(pid, mib, **where))


def carved(node) -> str:
    """MIG on, and one instance of the smallest profile; its UUID."""
    node.nvml.set_mig_mode(node.gpu, on=True)
    profile, size = smallest(node.board)
    return node.nvml.create_instance(node.gpu, profile, 0, size).uuid


def test_every_gpu_has_a_sample_and_every_number_is_there_or_missing_with_a_reason(looked):
    samples, nvml = looked
    assert [s.uuid for s in samples] == [gpu.uuid for gpu in nvml.devices()] != []
    for sample in samples:
        absent = {name for name in numbers(GpuSample) if getattr(sample, name) is None}
        assert absent == {m.name for m in sample.missing}
        for piece in sample.slices:
            gone = {name for name in numbers(SliceSample) if getattr(piece, name) is None}
            assert gone == {m.name for m in piece.missing}


def test_numbers_are_ones_that_can_be_and_travel_by_the_contract(looked):
    for sample in looked[0]:
        assert decode(GpuSample, encode(sample)) == sample
        assert 0 <= sample.memory_used_mib <= sample.memory_total_mib
        assert 0 < sample.temperature_c < 120
        assert 0 < sample.power_mw <= 2 * sample.power_limit_mw


def test_activity_is_measured_where_the_gpu_has_the_counters_and_else_the_architecture_is_why(
    looked,
):
    for sample, gpu in zip(looked[0], looked[1].devices(), strict=True):
        handle = pynvml.nvmlDeviceGetHandleByUUID(gpu.uuid)
        has = bool(pynvml.nvmlGpmQueryDeviceSupport(handle).isSupportedDevice)
        older = pynvml.nvmlDeviceGetArchitecture(handle) < pynvml.NVML_DEVICE_ARCH_HOPPER
        if has and not gpu.mig_current:
            assert sample.active_percent is not None
        elif older:
            assert sample.missing_reason("active_percent") is MissingReason.ARCHITECTURE


def test_a_gpu_in_mig_mode_tells_no_utilisation_but_power_and_temperature(at):
    node, _, sensors = at("H200-141GB")
    node.nvml.set_mig_mode(node.gpu, on=True)
    (sample,) = sensors.sample()
    assert sample.utilization_percent is None
    assert sample.missing_reason("utilization_percent") is MissingReason.MIG_MODE
    assert sample.power_mw > 0 and sample.temperature_c > 0


@pytest.mark.parametrize(("board", "measured"), [("H200-141GB", True), ("A100-80GB", False)])
def test_a_slice_tells_its_memory_and_its_activity_only_by_counters(at, board, measured):
    node, clock, sensors = at(board)
    uuid = carved(node)
    instance = node.nvml.instances(node.gpu)[0]
    begin(node, mib=512, gpu_instance=instance.instance_id, compute_instance=0)
    sensors.sample()
    clock.now += 10
    (piece,) = sensors.sample()[0].slices
    assert (piece.uuid, piece.profile) == (uuid, instance.profile)
    assert piece.memory_used_mib == 512
    assert piece.memory_total_mib == node.board.profile(instance.profile).memory_mib
    assert all((getattr(piece, name) is not None) == measured for name in ACTIVE)
    assert measured == (piece.active_percent is not None and piece.active_percent > 50)
    assert measured or piece.missing_reason("active_percent") is MissingReason.ARCHITECTURE


def test_activity_is_a_mean_between_two_looks_so_the_first_has_none(at):
    node, clock, sensors = at("H200-141GB")
    assert sensors.sample()[0].missing_reason("active_percent") is MissingReason.FIRST_SAMPLE
    begin(node)
    clock.now += 10
    half = sensors.sample()[0].active_percent
    clock.now += 10
    assert 0 < half < sensors.sample()[0].active_percent <= 100


def test_an_instance_made_anew_at_the_same_place_begins_anew(at):
    node, clock, sensors = at("H200-141GB")
    carved(node)
    sensors.sample()
    held = len(pynvml.nvmlLib.gpm_samples)
    old = node.nvml.instances(node.gpu)[0]
    node.nvml.destroy_instance(node.gpu, old.instance_id)
    node.nvml.create_instance(node.gpu, old.profile_id, old.start, old.size)
    clock.now += 10
    (piece,) = sensors.sample()[0].slices
    assert (piece.instance, piece.uuid != old.uuid) == (old.instance_id, True)
    assert piece.missing_reason("active_percent") is MissingReason.FIRST_SAMPLE
    assert len(pynvml.nvmlLib.gpm_samples) == held


def test_no_counter_sample_is_left_behind_by_a_session_that_ended(at):
    node, _, _ = at("H200-141GB")
    carved(node)
    with contextlib.closing(Sensors()) as sensors:
        sensors.sample()
        assert pynvml.nvmlLib.gpm_samples
    assert pynvml.nvmlLib.gpm_samples == {}


def test_work_makes_a_gpu_busier_hotter_and_hungrier_and_its_energy_only_grows(at):
    node, clock, sensors = at("H200-141GB")
    idle = sensors.sample()[0]
    begin(node)
    clock.now += 60
    busy = sensors.sample()[0]
    with node.change() as state:
        state.gpus[0].processes.clear()
    clock.now += 60
    after = sensors.sample()[0]
    assert idle.utilization_percent == after.utilization_percent == 0
    assert 0 < busy.utilization_percent <= 100
    assert idle.power_mw < busy.power_mw <= busy.power_limit_mw
    assert idle.temperature_c < busy.temperature_c
    assert idle.sm_clock_mhz < busy.sm_clock_mhz
    assert idle.energy_mj < busy.energy_mj < after.energy_mj
    assert (idle.event_reasons & 1, busy.event_reasons & 1) == (1, 0)


@pytest.mark.parametrize("layout", [n for n, wiring in LAYOUTS.items() if wiring.switches])
def test_nvlink_bytes_are_counted_where_links_are_and_only_grow(at, layout):
    wiring = LAYOUTS[layout]
    node, clock, sensors = at(wiring.board)
    node.store.create(
        new_node(board=wiring.board, gpus=wiring.gpus, seed=7, latency=False, layout=wiring)
    )
    begin(node)
    sensors.sample()
    clock.now += 10
    first = sensors.sample()[0].nvlink_sent_kib
    clock.now += 10
    assert 0 < first < sensors.sample()[0].nvlink_sent_kib


def test_a_gpu_that_is_lost_has_no_sample_and_the_others_have(at):
    node, _, sensors = at("H200-141GB", gpus=2)
    with node.change() as state:
        state.gpus[0].lost = True
    (left,) = sensors.sample()
    assert left.uuid == node.store.node().gpus[1].uuid


def test_a_sensor_that_hangs_keeps_the_sampler_and_not_what_else_asks_the_driver(at):
    node, _, _ = at("H200-141GB")
    hangs, goes_on = threading.Event(), threading.Event()
    pynvml.nvmlLib.sleep = lambda seconds: seconds and (hangs.set(), goes_on.wait(300))
    with node.change() as state:
        state.slow = {"nvmlDeviceGetPowerUsage": 1.0}
    sampler = Sampler(10)
    sampler.start()
    try:
        assert hangs.wait(300)
        assert [gpu.uuid for gpu in node.nvml.devices()] == [node.gpu]
        assert sampler.last.samples == ()
    finally:
        goes_on.set()
        sampler.stop()
    assert [sample.uuid for sample in sampler.last.samples] == [node.gpu]


@pytest.mark.parametrize("board", sorted(known_boards()))
def test_the_simulation_has_sensors_on_every_board_of_the_table(board, at):
    _, _, sensors = at(board)
    (sample,) = sensors.sample()
    assert 0 < sample.power_mw < sample.power_limit_mw and sample.sm_clock_mhz > 0
