"""Every board that the simulation can play, asked through pynvml for all that its table says."""

import contextlib
import json
import math
from ctypes import byref, c_uint
from importlib.resources import files
from itertools import pairwise

import pynvml
import pytest

from agents.contract.boards import known_boards
from agents.simdriver import driver
from tests.contract.drivers import offered_profiles, possible_placements, simulated

# Facts, section 1.2, with L40S and T4 beside them: what the list of boards has to have.
WANTED = {
    "A30-24GB", "A100-40GB", "A100-80GB", "H100-80GB", "H100-94GB", "H100-96GB", "H200-141GB",
    "GH200-144GB", "B200-180GB", "GB200-186GB", "RTX-PRO-6000-96GB", "L40S-48GB", "T4-16GB",
}  # fmt: skip
WITH_MIG = sorted(key for key, board in known_boards().items() if board.supports_mig)
# Their total memory is not in any transcript, so the name of larger profiles cannot be derived.
TOTAL_UNKNOWN = {"GH200-144GB", "GB200-186GB"}
GIB = 1_024


@pytest.fixture(params=WITH_MIG)
def board(request, tmp_path):
    with simulated(tmp_path / "driver.json", request.param, gpus=1) as node:
        node.nvml.set_mig_mode(node.gpu, on=True)
        yield known_boards()[request.param]


@pytest.fixture
def gpu(board):
    return pynvml.nvmlDeviceGetHandleByIndex(0)


def code_of(call, *arguments) -> int:
    with pytest.raises(pynvml.NVMLError) as refused:
        call(*arguments)
    return refused.value.value


def ruled_name(compute_slices: int, memory_mib: int, total_mib: int) -> str:
    """go-nvlib, `mig_profile.go`: eighths of the memory, rounded up, of the GiB, rounded up."""
    eighths = math.ceil(8 * memory_mib / total_mib) / 8
    # Half a GB goes up in Go, to the even number in Python.
    return f"{compute_slices}g.{math.floor(eighths * math.ceil(total_mib / GIB) + 0.5)}gb"


def test_the_list_of_boards_is_complete():
    assert set(known_boards()) == WANTED


def test_profiles_are_told_with_their_own_ids_names_slices_and_memory(gpu, board):
    told = offered_profiles(gpu)
    assert sorted(told) == sorted(p.query_index for p in board.profiles)
    for profile in board.profiles:
        info = told[profile.query_index]
        assert (info.id, info.name) == (profile.id, f"MIG {profile.name}")
        assert (info.sliceCount, info.instanceCount) == (
            profile.compute_slices,
            profile.max_instances,
        )
        assert (info.memorySizeMB, info.multiprocessorCount) == (
            profile.memory_mib,
            profile.multiprocessors,
        )
        assert info.copyEngineCount == profile.copy_engines
        assert info.isP2pSupported == 0, "no transcript shows another answer"


def test_no_two_profiles_share_an_id_and_ids_are_not_the_numbers_to_ask_by(gpu, board):
    told = offered_profiles(gpu)
    assert len({info.id for info in told.values()}) == len(told)
    assert any(info.id != query for query, info in told.items())


def test_names_follow_the_rule_of_memory_and_its_total(gpu, board):
    total = pynvml.nvmlDeviceGetMemoryInfo(gpu).total >> 20
    for info in offered_profiles(gpu).values():
        plain = info.name.removeprefix("MIG ").partition("+")[0].partition("-")[0]
        if board.key not in TOTAL_UNKNOWN:
            assert plain == ruled_name(info.sliceCount, info.memorySizeMB, total)


def test_placements_are_the_tables_and_lie_within_the_board(gpu, board):
    for profile in board.profiles:
        places = possible_placements(gpu, profile.id)
        assert places == [(start, profile.memory_slices) for start in sorted(profile.starts)]
        assert all(start + size <= board.memory_slices for start, size in places)


def test_each_profile_can_be_made_as_often_as_it_says_and_not_once_more(gpu, board):
    for profile in board.profiles:
        made = [
            pynvml.nvmlDeviceCreateGpuInstance(gpu, profile.id)
            for _ in range(profile.max_instances)
        ]
        refused = code_of(pynvml.nvmlDeviceCreateGpuInstance, gpu, profile.id)
        assert refused == pynvml.NVML_ERROR_INSUFFICIENT_RESOURCES
        for instance in made:
            pynvml.nvmlGpuInstanceDestroy(instance)


def test_a_whole_instance_has_the_memory_name_and_multiprocessors_of_its_profile(gpu, board):
    for profile in board.profiles:
        instance = pynvml.nvmlDeviceCreateGpuInstance(gpu, profile.id)
        widest = full_width(instance, profile.compute_slices)
        made = pynvml.nvmlGpuInstanceCreateComputeInstance(instance, widest)
        device = pynvml.nvmlComputeInstanceGetInfo(made).device
        told = pynvml.nvmlDeviceGetAttributes_v2(device)
        assert told.memorySizeMB == profile.memory_mib
        assert told.multiprocessorCount == profile.multiprocessors
        assert told.gpuInstanceSliceCount == told.computeInstanceSliceCount
        assert pynvml.nvmlDeviceGetMemoryInfo(device).total == profile.memory_mib << 20
        name = pynvml.nvmlDeviceGetName(device)
        assert name == f"{board.product_names[0]} MIG {profile.name}"
        pynvml.nvmlComputeInstanceDestroy(made)
        pynvml.nvmlGpuInstanceDestroy(instance)


def full_width(instance, slices: int) -> int:
    found = compute_profiles(instance).values()
    return next(info.id for info in found if info.sliceCount == slices)


def compute_profiles(instance) -> dict:
    found = {}
    for query in range(pynvml.NVML_COMPUTE_INSTANCE_PROFILE_COUNT):
        with contextlib.suppress(pynvml.NVMLError_NotSupported):
            found[query] = pynvml.nvmlGpuInstanceGetComputeInstanceProfileInfo(instance, query, 0)
    return found


def test_compute_profiles_and_their_counts_are_those_of_the_table(gpu, board):
    raw = json.loads(files("agents.contract").joinpath("boards.json").read_text("utf-8"))
    table = raw["compute_instance_profiles"]["by_gi_compute_slices"]
    for profile in board.profiles:
        double = profile.compute_slices == 1 and profile.memory_slices == 2
        key = "1_double_memory" if double else str(profile.compute_slices)
        instance = pynvml.nvmlDeviceCreateGpuInstance(gpu, profile.id)
        told = {
            str(query): {"slices": info.sliceCount, "max": info.instanceCount}
            for query, info in compute_profiles(instance).items()
        }
        assert told == table[key]
        pynvml.nvmlGpuInstanceDestroy(instance)


def test_compute_instances_fill_their_gpu_instance_to_the_last_slice_and_no_further(gpu, board):
    for profile in board.profiles:
        instance = pynvml.nvmlDeviceCreateGpuInstance(gpu, profile.id)
        for query, info in compute_profiles(instance).items():
            fill(instance, query, info)
        pynvml.nvmlGpuInstanceDestroy(instance)


def fill(instance, query: int, info) -> None:
    left = pynvml.nvmlGpuInstanceGetComputeInstanceRemainingCapacity
    create = pynvml.nvmlGpuInstanceCreateComputeInstance
    assert left(instance, query) == info.instanceCount
    made = [create(instance, query) for _ in range(info.instanceCount)]
    places = sorted(
        (place.start, place.start + place.size)
        for place in (pynvml.nvmlComputeInstanceGetInfo(one).placement for one in made)
    )
    assert all(end <= start for (_, end), (start, _) in pairwise(places))
    assert left(instance, query) == 0
    assert code_of(create, instance, query) == pynvml.NVML_ERROR_INSUFFICIENT_RESOURCES
    for one in made:
        pynvml.nvmlComputeInstanceDestroy(one)


def test_the_tables_starts_of_compute_instances_are_those_in_seven_slices():
    raw = json.loads(files("agents.contract").joinpath("boards.json").read_text("utf-8"))
    table = raw["compute_instance_profiles"]["placements_by_slices_in_7"]
    assert {str(w): list(starts) for w, starts in driver.COMPUTE_STARTS.items()} == table


@pytest.mark.parametrize("key", sorted(set(WANTED) - set(WITH_MIG)))
def test_a_board_without_mig_refuses_all_of_it(key, tmp_path):
    with simulated(tmp_path / "driver.json", key, gpus=1):
        gpu = pynvml.nvmlDeviceGetHandleByIndex(0)
        assert pynvml.nvmlDeviceGetName(gpu) == known_boards()[key].product_names[0]
        assert pynvml.nvmlDeviceGetMemoryInfo(gpu).total >> 20 == known_boards()[key].memory_mib
        assert pynvml.nvmlDeviceGetMaxMigDeviceCount(gpu) == 0
        for call, *arguments in (
            (pynvml.nvmlDeviceGetMigMode,),
            (pynvml.nvmlDeviceSetMigMode, 1),
            (pynvml.nvmlDeviceGetGpuInstanceProfileInfo, 0),
            (pynvml.nvmlDeviceGetGpuInstanceRemainingCapacity, 19),
            (pynvml.nvmlDeviceGetGpuInstancePossiblePlacements, 19, None, byref(c_uint())),
            (pynvml.nvmlDeviceCreateGpuInstance, 19),
        ):
            assert code_of(call, gpu, *arguments) == pynvml.NVML_ERROR_NOT_SUPPORTED


@pytest.mark.parametrize("key", sorted(WANTED))
def test_architecture_and_compute_capability_are_the_boards(key, tmp_path):
    known = {"turing": 6, "ampere": 7, "ada": 8, "hopper": 9, "blackwell": 10}
    board = known_boards()[key]
    with simulated(tmp_path / "driver.json", key, gpus=1):
        gpu = pynvml.nvmlDeviceGetHandleByIndex(0)
        assert pynvml.nvmlDeviceGetArchitecture(gpu) == known[board.architecture]
        capability = pynvml.nvmlDeviceGetCudaComputeCapability(gpu)
        assert ".".join(map(str, capability)) == board.compute_capability
        assert pynvml.nvmlDeviceGetMaxPcieLinkGeneration(gpu) >= 3


def test_what_nobody_read_on_a_board_is_marked():
    def marks(key: str) -> set[str]:
        board = known_boards()[key]
        return {*board.estimated, *(f for p in board.profiles for f in p.estimated)}

    assert marks("H100-80GB") == marks("A100-80GB") == marks("L40S-48GB") == set()
    assert marks("A30-24GB") == {"id"}, "of 2g.12gb+me"
    assert {"memory_mib", "multiprocessors", "starts"} <= marks("GB200-186GB")
    profiles = known_boards()["GH200-144GB"].profiles
    estimated = {profile.name for profile in profiles if "memory_mib" in profile.estimated}
    assert estimated == {"3g.72gb", "4g.72gb", "7g.144gb"}
