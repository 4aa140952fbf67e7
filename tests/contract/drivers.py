"""A driver behind pynvml: the simulated one on a state file, or the machine's own."""

import contextlib
from collections.abc import Iterator
from ctypes import byref, c_uint
from pathlib import Path

import pynvml
import pytest

from agents.contract.boards import Board, known_boards
from agents.contract.geometry import Placement
from agents.nvml.errors import NvmlFailure
from agents.nvml.session import Nvml
from agents.simdriver.install import install, uninstall
from agents.simdriver.state import new_node
from agents.simdriver.store import Store

WITH_MIG = ("H200-141GB", "H100-80GB", "A100-80GB", "A100-40GB", "A30-24GB")
WITHOUT_MIG = "L40S-48GB"


class SimulatedNode:
    """The state file of a node, and a session with its driver."""

    def __init__(self, path: Path, board: str, gpus: int = 2) -> None:
        self.store = Store(path)
        self.store.create(new_node(board=board, gpus=gpus, seed=7, latency=False))
        install(path)
        self.nvml = Nvml()

    @property
    def gpu(self) -> str:
        return self.nvml.devices()[0].uuid

    @property
    def board(self) -> Board:
        return self.nvml.devices()[0].board

    def change(self):
        """What happens to a node by other hands than the agent's."""
        return self.store.change()


@contextlib.contextmanager
def simulated(path: Path, board: str, gpus: int = 2) -> Iterator[SimulatedNode]:
    try:
        yield SimulatedNode(path, board, gpus)
    finally:
        with contextlib.suppress(pynvml.NVMLError):
            pynvml.nvmlShutdown()
        uninstall()


@contextlib.contextmanager
def real() -> Iterator[Nvml]:
    """A session with the machine's own driver; the test is skipped where there is none."""
    try:
        nvml = Nvml()
    except NvmlFailure as failure:
        pytest.skip(f"no NVIDIA driver answers: {failure}")
    yield nvml
    nvml.close()


def handle(uuid: str) -> object:
    return pynvml.nvmlDeviceGetHandleByUUID(uuid)


def possible_placements(gpu: object, profile_id: int) -> list[tuple[int, int]]:
    count = c_uint()
    pynvml.nvmlDeviceGetGpuInstancePossiblePlacements(gpu, profile_id, None, byref(count))
    array = (pynvml.c_nvmlGpuInstancePlacement_t * count.value)()
    pynvml.nvmlDeviceGetGpuInstancePossiblePlacements(gpu, profile_id, array, byref(count))
    return sorted((place.start, place.size) for place in array)


def offered_profiles(gpu: object) -> dict[int, object]:
    """What the driver says of each profile, by query index."""
    found = {}
    for query in range(pynvml.NVML_GPU_INSTANCE_PROFILE_COUNT):
        with contextlib.suppress(pynvml.NVMLError_NotSupported, pynvml.NVMLError_InvalidArgument):
            found[query] = pynvml.nvmlDeviceGetGpuInstanceProfileInfo(gpu, query)
    return found


def smallest(board: Board) -> tuple[int, int]:
    """Id and size of the board's smallest plain profile."""
    profile = min(board.profiles, key=lambda p: (p.memory_slices, p.query_index))
    return profile.id, profile.memory_slices


def every_place() -> list[tuple[str, str, Placement]]:
    """Each plain profile of each board with MIG, at each of its places."""
    return [
        (key, profile.name, Placement(start, profile.memory_slices, profile.name))
        for key in WITH_MIG
        for profile in known_boards()[key].profiles
        for start in profile.starts
    ]
