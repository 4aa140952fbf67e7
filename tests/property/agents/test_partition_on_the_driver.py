"""The agent's partitioning through pynvml, on the simulated driver: any legal layout becomes any
other, at exactly the places that were asked for, and what stands in both keeps its UUID."""

import tempfile
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.contract.boards import known_boards
from agents.contract.documents import GpuMode
from agents.contract.geometry import Placement, is_legal
from agents.nvml.session import Nvml
from agents.partitioning.diff import partition_changes
from agents.partitioning.execute import execute_steps
from agents.partitioning.steps import CreateInstance, DestroyInstance, SetMigMode, WantedSlice
from agents.simdriver.install import install, uninstall
from agents.simdriver.state import SimulatedProcess, new_node
from agents.simdriver.store import Store
from tests.support.examples import examples
from tests.support.slow_geometry import fits_together

WITH_MIG = sorted(key for key, board in known_boards().items() if board.supports_mig)
DRIVER = examples(25, database=None)


@contextmanager
def a_driver(board, gpus=1):
    """A session with a fresh simulated node, and the node itself."""
    with tempfile.TemporaryDirectory() as folder:
        store = Store(Path(folder) / "driver.json")
        store.create(new_node(board=board, gpus=gpus, seed=7, latency=False))
        install(store.path)
        try:
            nvml = Nvml()
            yield nvml, store
            nvml.close()
        finally:
            uninstall()


@st.composite
def layouts(draw, board):
    layout = []
    for _ in range(draw(st.integers(0, 7))):
        if options := list(fits_together(board, layout)):
            layout.append(draw(st.sampled_from(options)))
    assert is_legal(board, layout)
    return frozenset(layout)


def live(nvml):
    return [i for gpu in nvml.devices() for i in nvml.instances(gpu.uuid)]


def seen(nvml):
    """What stands on each GPU: place to UUID."""
    found = {gpu.uuid: {} for gpu in nvml.devices()}
    for i in live(nvml):
        found[i.gpu_uuid][Placement(i.start, i.size, i.profile)] = i.uuid
    return found


def wanted(gpu, layout):
    return [WantedSlice(gpu, p.profile, p.start, p.size, f"s-{p.start}") for p in layout]


def changes(nvml, slices, modes, in_use=frozenset()):
    return partition_changes(nvml.devices(), live(nvml), slices, modes, in_use)


def reach(nvml, slices, modes, in_use=frozenset()):
    """Carry the steps out; they and the problems that came of it."""
    found = changes(nvml, slices, modes, in_use)
    done = []
    problems = execute_steps(nvml, found.steps, lambda step: None, done.append)
    return done, found.problems + problems


@pytest.mark.parametrize("key", WITH_MIG)
@DRIVER
@given(data=st.data())
def test_any_sequence_of_layouts_is_reached_at_once_and_what_stays_keeps_its_uuid(key, data):
    board = known_boards()[key]
    with a_driver(key) as (nvml, _):
        (gpu,) = (gpu.uuid for gpu in nvml.devices())
        before, ever = {}, set()
        for layout in data.draw(st.lists(layouts(board), min_size=2, max_size=4)):
            modes = {gpu: GpuMode.MIG}
            steps, problems = reach(nvml, wanted(gpu, layout), modes)
            assert problems == []
            after = seen(nvml)[gpu]
            assert after.keys() == layout
            assert {p: after[p] for p in before.keys() & layout} == {
                p: before[p] for p in before.keys() & layout
            }
            made = {after[p] for p in layout - before.keys()}
            assert "" not in made and not made & ever, "a new slice has a name of its own"
            assert len([s for s in steps if isinstance(s, CreateInstance)]) == len(made)
            assert len([s for s in steps if isinstance(s, DestroyInstance)]) == len(
                before.keys() - layout
            )
            assert changes(nvml, wanted(gpu, layout), modes).steps == []
            before, ever = after, ever | made


@DRIVER
@given(data=st.data())
def test_gpus_change_their_modes_and_layouts_independently(data):
    board = known_boards()["H200-141GB"]
    with a_driver(board.key, gpus=3) as (nvml, _):
        gpus = [gpu.uuid for gpu in nvml.devices()]
        for _ in range(3):
            asked = {gpu: data.draw(st.none() | layouts(board)) for gpu in gpus[:2]}
            modes = {g: GpuMode.WHOLE if p is None else GpuMode.MIG for g, p in asked.items()}
            slices = [s for g, layout in asked.items() for s in wanted(g, layout or ())]
            assert reach(nvml, slices, modes)[1] == []
            after = seen(nvml)
            assert {gpu: set(after[gpu]) for gpu in asked} == {
                gpu: set(layout or ()) for gpu, layout in asked.items()
            }
            mig = {gpu.uuid: gpu.mig_current for gpu in nvml.devices()}
            assert mig == {**{g: m is GpuMode.MIG for g, m in modes.items()}, gpus[2]: False}


@DRIVER
@given(data=st.data())
def test_a_slice_in_use_outlives_every_layout_and_the_others_are_made_beside_it(data):
    board = known_boards()["H200-141GB"]
    with a_driver(board.key) as (nvml, store):
        (gpu,) = (gpu.uuid for gpu in nvml.devices())
        first = data.draw(layouts(board).filter(bool))
        reach(nvml, wanted(gpu, first), {gpu: GpuMode.MIG})
        held = data.draw(st.sampled_from(sorted(first)))
        uuid, in_use = seen(nvml)[gpu][held], frozenset({(gpu, held.start, held.size)})
        with store.change() as node:
            (instance,) = (i for i in node.gpus[0].instances if i.start == held.start)
            node.gpus[0].processes.append(SimulatedProcess(4_242, 100, instance.id, 0))
        layout = data.draw(layouts(board))
        mode = data.draw(st.sampled_from([GpuMode.MIG, GpuMode.WHOLE]))
        slices = wanted(gpu, layout if mode is GpuMode.MIG else ())
        _, problems = reach(nvml, slices, {gpu: mode}, in_use)
        assert seen(nvml)[gpu][held] == uuid
        if mode is GpuMode.WHOLE:
            assert [p.code for p in problems] == ["in_use"]
            assert list(seen(nvml)[gpu]) == [held]
        if mode is GpuMode.MIG and held in layout:
            assert (problems, set(seen(nvml)[gpu])) == ([], layout)
        with store.change() as node:
            node.gpus[0].processes.clear()
        assert reach(nvml, slices, {gpu: mode})[1] == []
        assert set(seen(nvml)[gpu]) == {Placement(s.start, s.size, s.profile) for s in slices}


def test_steps_delete_then_change_modes_then_make():
    with a_driver("H200-141GB", gpus=2) as (nvml, _):
        one, two = (gpu.uuid for gpu in nvml.devices())
        small, large = Placement(0, 1, "1g.18gb"), Placement(0, 4, "4g.71gb")
        reach(nvml, wanted(one, [small]), {one: GpuMode.MIG})
        steps, problems = reach(
            nvml, wanted(one, [large]) + wanted(two, [small]), {one: GpuMode.MIG, two: GpuMode.MIG}
        )
        assert problems == []
        kinds = [type(s) for s in steps]
        assert kinds == [DestroyInstance, CreateInstance, SetMigMode, CreateInstance]
        steps, _ = reach(nvml, [], {one: GpuMode.WHOLE, two: GpuMode.WHOLE})
        assert [type(s) for s in steps] == [
            DestroyInstance,
            SetMigMode,
            DestroyInstance,
            SetMigMode,
        ]


def test_a_slice_that_lost_its_compute_instance_is_completed_not_made_again():
    with a_driver("H200-141GB") as (nvml, store):
        (gpu,) = (gpu.uuid for gpu in nvml.devices())
        slices = wanted(gpu, [Placement(4, 4, "3g.71gb")])
        reach(nvml, slices, {gpu: GpuMode.MIG})
        (whole,) = live(nvml)
        with store.change() as node:
            node.gpus[0].instances[0].compute.clear()
        assert [i.uuid for i in live(nvml)] == [""]
        assert reach(nvml, slices, {gpu: GpuMode.MIG})[1] == []
        (again,) = live(nvml)
        assert again.instance_id == whole.instance_id and again.uuid not in ("", whole.uuid)


def test_one_gpu_that_refuses_does_not_keep_the_others_back():
    with a_driver("H200-141GB", gpus=2) as (nvml, store):
        one, two = (gpu.uuid for gpu in nvml.devices())
        with store.change() as node:
            node.gpus[0].held_by_client = True
        place = Placement(2, 2, "2g.35gb")
        slices = wanted(one, [place]) + wanted(two, [place])
        _, problems = reach(nvml, slices, {one: GpuMode.MIG, two: GpuMode.MIG})
        assert [(p.gpu_uuid, p.code) for p in problems] == [(one, "in_use")]
        assert set(seen(nvml)[two]) == {place} and seen(nvml)[one] == {}
        with store.change() as node:
            node.gpus[0].held_by_client = False
        assert reach(nvml, slices, {one: GpuMode.MIG, two: GpuMode.MIG})[1] == []
        assert set(seen(nvml)[one]) == {place}


def test_a_profile_that_the_board_lacks_is_a_problem_that_names_the_slice():
    with a_driver("A30-24GB") as (nvml, _):
        (gpu,) = (gpu.uuid for gpu in nvml.devices())
        wrong = WantedSlice(gpu, "3g.20gb", 0, 4, "s-9")
        steps, problems = reach(nvml, [wrong], {gpu: GpuMode.MIG})
        assert [type(s) for s in steps] == [SetMigMode]
        assert [(p.code, p.slice) for p in problems] == [("no_such_profile", "s-9")]


def test_a_gpu_that_is_not_named_or_has_no_mig_is_left_alone():
    with a_driver("H200-141GB") as (nvml, _):
        (gpu,) = (gpu.uuid for gpu in nvml.devices())
        reach(nvml, wanted(gpu, [Placement(0, 1, "1g.18gb")]), {gpu: GpuMode.MIG})
        before = seen(nvml)
        assert reach(nvml, [], {}) == ([], [])
        assert seen(nvml) == before
    with a_driver("L40S-48GB") as (nvml, _):
        (gpu,) = (gpu.uuid for gpu in nvml.devices())
        assert reach(nvml, [], {gpu: GpuMode.WHOLE}) == ([], [])
