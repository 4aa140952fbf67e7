"""Whatever anybody asks of the simulated driver, and in whatever order: no state of it is one that
hardware could not be in, and what it says of the room that is left is what a create then finds."""

import contextlib
import tempfile
from ctypes import byref, c_uint
from pathlib import Path

import pynvml
from hypothesis import given
from hypothesis import strategies as st

from agents.contract.boards import known_boards
from agents.contract.geometry import Placement, is_legal
from agents.simdriver import faults
from agents.simdriver.codes import Code
from agents.simdriver.install import install, uninstall
from agents.simdriver.state import COMPUTE_WIDTHS, new_node
from agents.simdriver.store import Store
from tests.support.examples import examples

LAWFUL = examples(250, database=None)
WITH_MIG = sorted(key for key, board in known_boards().items() if board.supports_mig)
HOLDER = 4_242
# Kind of operation, and numbers that choose among what there is: a profile, an instance, a place.
CHOICE = st.integers(0, 63)
USUAL = ["create", "place", "compute", "destroy", "end", "hold", "release"]
OPERATION = st.tuples(
    st.sampled_from([*USUAL, *USUAL, *USUAL, *USUAL, "mode", "reset", "reboot"]), CHOICE, CHOICE
)
CHANGE = st.tuples(st.sampled_from(["create", "place", "destroy"]), CHOICE, CHOICE)


class Driver:
    """One GPU, driven through pynvml; refusals are part of the game."""

    def __init__(self, path: Path, key: str) -> None:
        self.board, self.store = known_boards()[key], Store(path)
        self.store.create(new_node(board=key, gpus=1, seed=3, latency=False))
        install(path)
        pynvml.nvmlInit()
        self.gpu = pynvml.nvmlDeviceGetHandleByIndex(0)
        pynvml.nvmlDeviceSetMigMode(self.gpu, 1)

    @property
    def state(self):
        return self.store.node().gpus[0]

    def profile(self, choice: int):
        return self.board.profiles[choice % len(self.board.profiles)]

    def instance(self, choice: int):
        known = self.state.instances
        number = known[choice % len(known)].id if known else 1
        return pynvml.nvmlDeviceGetGpuInstanceById(self.gpu, number)

    def do(self, what: str, one: int, other: int) -> int:
        """The code that came back."""
        try:
            getattr(self, what)(one, other)
        except pynvml.NVMLError as refused:
            return int(refused.value)
        except ValueError:  # a fault that cannot happen now
            return Code.INVALID_STATE
        return Code.SUCCESS

    def create(self, one: int, other: int) -> None:
        pynvml.nvmlDeviceCreateGpuInstance(self.gpu, self.profile(one).id)

    def place(self, one: int, other: int) -> None:
        """Anywhere, also where nothing may begin."""
        profile = self.profile(one)
        size = profile.memory_slices + (other > 60)
        place = pynvml.c_nvmlGpuInstancePlacement_t(other % (self.board.memory_slices + 1), size)
        pynvml.nvmlDeviceCreateGpuInstanceWithPlacement(self.gpu, profile.id, byref(place))

    def destroy(self, one: int, other: int) -> None:
        pynvml.nvmlGpuInstanceDestroy(self.instance(one))

    def compute(self, one: int, other: int) -> None:
        pynvml.nvmlGpuInstanceCreateComputeInstance(self.instance(one), other % 4)

    def end(self, one: int, other: int) -> None:
        made = pynvml.nvmlGpuInstanceGetComputeInstanceById(self.instance(one), other % 3)
        pynvml.nvmlComputeInstanceDestroy(made)

    def mode(self, one: int, other: int) -> None:
        pynvml.nvmlDeviceSetMigMode(self.gpu, one % 2)

    def hold(self, one: int, other: int) -> None:
        """Mostly on an instance: who has the whole GPU open stops everything."""
        with self.store.change() as node:
            known = [i.id for i in node.gpus[0].instances if i.compute]
            on = known[one % len(known)] if known and other % 8 else None
            faults.attach_client(node.gpus[0], HOLDER, on)

    def release(self, one: int, other: int) -> None:
        with self.store.change() as node:
            faults.detach_client(node.gpus[0], HOLDER)

    def reset(self, one: int, other: int) -> None:
        with self.store.change() as node:
            faults.reset_gpu(node, node.gpus[0])

    def reboot(self, one: int, other: int) -> None:
        with self.store.change() as node:
            faults.reboot_node(node)

    def fill(self, choices: list[int]) -> None:
        """Instances to begin with, each with a compute instance where its narrowest one fits."""
        for choice in choices:
            self.do("create", choice, 0)
        for index in range(len(self.state.instances)):
            self.do("compute", index, 0)

    def capacity(self, profile) -> int:
        return pynvml.nvmlDeviceGetGpuInstanceRemainingCapacity(self.gpu, profile.id)


@contextlib.contextmanager
def a_driver(key: str):
    with tempfile.TemporaryDirectory() as folder:
        try:
            yield Driver(Path(folder) / "driver.json", key)
        finally:
            with contextlib.suppress(pynvml.NVMLError):
                pynvml.nvmlShutdown()
            uninstall()


def assert_lawful(driver: Driver) -> None:
    state, board = driver.state, driver.board
    profiles = [board.profile_by_id(i.profile_id) for i in state.instances]
    layout = [
        Placement(i.start, i.size, p.name) for i, p in zip(state.instances, profiles, strict=True)
    ]
    assert is_legal(board, layout), layout
    assert len({i.id for i in state.instances}) == len(state.instances)
    assert not state.instances or state.mig_current
    for instance, profile in zip(state.instances, profiles, strict=True):
        slots = [
            slot
            for compute in instance.compute
            for slot in range(compute.start, compute.start + COMPUTE_WIDTHS[compute.profile_id])
        ]
        assert len(slots) == len(set(slots))
        assert all(0 <= slot < profile.compute_slices for slot in slots)
        assert len({compute.id for compute in instance.compute}) == len(instance.compute)
    living = {(i.id, c.id) for i in state.instances for c in i.compute}
    users = {(p.gpu_instance, p.compute_instance) for p in state.processes}
    assert users - {(None, None)} <= living, "nobody runs on what is not there"


def names(gpu) -> set[tuple[int, int | None]]:
    """Each GPU instance, and each compute instance within it."""
    whole = {(i.id, None) for i in gpu.instances}
    return whole | {(i.id, c.id) for i in gpu.instances for c in i.compute}


def gone(before, after) -> set[tuple[int, int | None]]:
    return names(before) - names(after)


def unused(gpu) -> set[tuple[int, int | None]]:
    """What may be destroyed: empty GPU instances, compute instances that no process is on."""
    empty = {(i.id, None) for i in gpu.instances if not i.compute}
    computes = {(i.id, c.id) for i in gpu.instances for c in i.compute}
    return empty | computes - {(p.gpu_instance, p.compute_instance) for p in gpu.processes}


@LAWFUL
@given(
    st.sampled_from(WITH_MIG),
    st.lists(CHOICE, min_size=1, max_size=4),
    st.lists(OPERATION, min_size=5, max_size=30),
)
def test_no_sequence_of_calls_and_faults_brings_an_unlawful_state(key, filled, operations):
    with a_driver(key) as driver:
        driver.fill(filled)
        uuids = {c.uuid for i in driver.state.instances for c in i.compute}
        for what, one, other in operations:
            before, stood = driver.store.path.read_bytes(), driver.state
            code = driver.do(what, one, other)
            assert_lawful(driver)
            if code not in (Code.SUCCESS, Code.IN_USE):  # a mode may stay pending
                assert driver.store.path.read_bytes() == before, "refused, and yet done"
            if what in ("destroy", "end"):
                assert gone(stood, driver.state) <= unused(stood), "somebody used it"
            now = {c.uuid for i in driver.state.instances for c in i.compute}
            if what == "compute" and code == Code.SUCCESS:
                (new,) = now - uuids
                assert new.startswith("MIG-")
            uuids |= now
        assert len(uuids) <= driver.store.node().uuid_count


@LAWFUL
@given(
    st.sampled_from(WITH_MIG),
    st.lists(CHANGE, max_size=9),
    CHOICE,
)
def test_as_many_instances_can_be_made_as_the_capacity_said_and_not_one_more(
    key, operations, choice
):
    with a_driver(key) as driver:
        for operation in operations:
            driver.do(*operation)
        said = {profile.id: driver.capacity(profile) for profile in driver.board.profiles}
        profile = driver.profile(choice)
        for left in range(said[profile.id], 0, -1):
            assert driver.capacity(profile) == left
            assert driver.do("create", choice, 0) == Code.SUCCESS
        assert driver.capacity(profile) == 0
        assert driver.do("create", choice, 0) == Code.INSUFFICIENT_RESOURCES


@LAWFUL
@given(
    st.sampled_from(WITH_MIG),
    st.lists(CHANGE, max_size=9),
    CHOICE,
)
def test_a_profile_with_capacity_has_a_free_place_and_one_without_has_none(key, operations, choice):
    with a_driver(key) as driver:
        for operation in operations:
            driver.do(*operation)
        profile = driver.profile(choice)
        room = driver.capacity(profile)
        placed = []
        for start in places(driver.gpu, profile.id):
            place = pynvml.c_nvmlGpuInstancePlacement_t(start, profile.memory_slices)
            ask = pynvml.nvmlDeviceCreateGpuInstanceWithPlacement
            try:
                pynvml.nvmlGpuInstanceDestroy(ask(driver.gpu, profile.id, byref(place)))
            except pynvml.NVMLError_InsufficientResources:
                continue
            placed.append(start)
        assert bool(placed) is (room > 0)
        assert len(placed) >= room


def places(gpu, profile_id: int) -> list[int]:
    count = c_uint()
    ask = pynvml.nvmlDeviceGetGpuInstancePossiblePlacements
    ask(gpu, profile_id, None, byref(count))
    array = (pynvml.c_nvmlGpuInstancePlacement_t * count.value)()
    ask(gpu, profile_id, array, byref(count))
    return [place.start for place in array]
