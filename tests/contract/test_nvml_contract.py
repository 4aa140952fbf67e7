"""What the agent reads of a driver, asked of the simulated one for every board, and with `-m gpu`
of the machine's own. Nothing here changes anything."""

import pynvml
import pytest

from agents.contract.boards import known_boards
from agents.nvml.errors import NvmlCode, NvmlFailure
from agents.nvml.processes import gpu_processes
from agents.nvml.session import Nvml
from tests.contract.drivers import (
    WITH_MIG,
    WITHOUT_MIG,
    handle,
    offered_profiles,
    possible_placements,
    real,
    simulated,
)


@pytest.fixture(params=[*WITH_MIG, WITHOUT_MIG, pytest.param("real", marks=pytest.mark.gpu)])
def nvml(request, tmp_path):
    if request.param == "real":
        with real() as session:
            yield session
        return
    with simulated(tmp_path / "driver.json", request.param) as node:
        if node.board.mode_change_needs_reset:  # Ampere tells its profiles only with MIG on
            node.nvml.set_mig_mode(node.gpu, on=True)
        yield node.nvml


@pytest.fixture
def telling(nvml: Nvml):
    """The session, where its first GPU tells MIG profiles if it has any."""
    gpu = nvml.devices()[0]
    if gpu.board.mode_change_needs_reset and not gpu.mig_current:
        pytest.skip("a board like this tells its profiles only while MIG is on")
    return nvml


def test_the_driver_tells_its_versions(nvml: Nvml):
    versions = nvml.versions()
    assert versions.driver and versions.nvml.endswith(versions.driver)
    assert [part.isdigit() for part in versions.cuda.split(".")] == [True, True]


def test_gpus_are_told_in_order_with_uuids_and_places_of_their_own(nvml: Nvml):
    gpus = nvml.devices()
    assert [gpu.index for gpu in gpus] == list(range(len(gpus))) != []
    assert len({gpu.uuid for gpu in gpus}) == len({gpu.pci_bus_id for gpu in gpus}) == len(gpus)
    assert all(gpu.uuid.startswith("GPU-") and gpu.healthy for gpu in gpus)


def test_a_gpu_is_found_again_by_its_uuid_and_by_its_bus(nvml: Nvml):
    for gpu in nvml.devices():
        by_bus = pynvml.nvmlDeviceGetHandleByPciBusId(gpu.pci_bus_id)
        assert pynvml.nvmlDeviceGetIndex(handle(gpu.uuid)) == gpu.index
        assert pynvml.nvmlDeviceGetUUID(by_bus) == gpu.uuid


def test_its_board_is_the_one_of_the_table_with_the_memory_it_has(nvml: Nvml):
    for gpu in nvml.devices():
        board = gpu.board
        assert gpu.product_name in board.product_names
        assert abs(board.memory_mib - gpu.memory_mib) < 2_048
        assert (gpu.mig_current is not None) == board.supports_mig


def test_memory_is_the_same_by_both_versions_of_the_call(nvml: Nvml):
    gpu = handle(nvml.devices()[0].uuid)
    newer = pynvml.nvmlDeviceGetMemoryInfo(gpu, version=pynvml.nvmlMemory_v2)
    assert newer.total == pynvml.nvmlDeviceGetMemoryInfo(gpu).total


def test_a_struct_of_a_version_that_nobody_knows_is_refused(nvml: Nvml):
    gpu = handle(nvml.devices()[0].uuid)
    with pytest.raises(pynvml.NVMLError) as refused:
        pynvml.nvmlDeviceGetMemoryInfo(gpu, version=0x09000028)
    assert refused.value.value == pynvml.NVML_ERROR_ARGUMENT_VERSION_MISMATCH


def test_the_driver_offers_the_tables_profiles_and_beside_them_only_media_variants(telling: Nvml):
    gpu = telling.devices()[0]
    told = {
        query: (info.id, info.name.removeprefix("MIG "), info.sliceCount, info.instanceCount)
        for query, info in offered_profiles(handle(gpu.uuid)).items()
    }
    table = {
        p.query_index: (p.id, p.name, p.compute_slices, p.max_instances) for p in gpu.board.profiles
    }
    assert {query: told.get(query) for query in table} == table
    others = [name for query, (_, name, *_) in told.items() if query not in table]
    assert all("+" in name or "-" in name for name in others)


def test_both_versions_of_the_profile_call_say_the_same(nvml: Nvml):
    gpu = handle(nvml.devices()[0].uuid)
    for query, newer in offered_profiles(gpu).items():
        older = pynvml.nvmlDeviceGetGpuInstanceProfileInfo(gpu, query, version=1)
        for name in ("id", "sliceCount", "instanceCount", "multiprocessorCount", "memorySizeMB"):
            assert getattr(older, name) == getattr(newer, name)


def test_possible_placements_are_the_tables(telling: Nvml):
    gpu = telling.devices()[0]
    for profile in gpu.board.profiles:
        places = possible_placements(handle(gpu.uuid), profile.id)
        assert places == sorted((start, profile.memory_slices) for start in profile.starts)


def test_a_gpu_that_is_not_there_is_not_found(nvml: Nvml):
    unknown = "GPU-00000000-0000-0000-0000-000000000000"
    for ask in (nvml.instances, gpu_processes):
        with pytest.raises(NvmlFailure) as failure:
            ask(unknown)
        assert failure.value.code is NvmlCode.NO_SUCH_DEVICE
        assert unknown in failure.value.sentence


def test_an_index_beyond_the_last_gpu_is_an_invalid_argument(nvml: Nvml):
    with pytest.raises(pynvml.NVMLError_InvalidArgument):
        pynvml.nvmlDeviceGetHandleByIndex(len(nvml.devices()))


def test_a_board_without_mig_says_so_and_has_no_instances(nvml: Nvml):
    for gpu in nvml.devices():
        if gpu.board.supports_mig:
            continue
        assert (gpu.mig_current, gpu.mig_pending) == (None, None)
        assert nvml.instances(gpu.uuid) == []
        with pytest.raises(pynvml.NVMLError_NotSupported):
            pynvml.nvmlDeviceGetMigMode(handle(gpu.uuid))


def test_instances_are_told_only_where_mig_is_on_and_never_overlap(nvml: Nvml):
    for gpu in nvml.devices():
        slots = [s for i in nvml.instances(gpu.uuid) for s in range(i.start, i.start + i.size)]
        assert len(slots) == len(set(slots)) <= gpu.board.memory_slices
        assert not slots or gpu.mig_current


@pytest.mark.parametrize("board", sorted(known_boards()))
def test_the_simulation_plays_every_board_of_the_table(board, tmp_path):
    with simulated(tmp_path / "driver.json", board, gpus=1) as node:
        (gpu,) = node.nvml.devices()
        assert gpu.memory_mib > 0
        assert gpu.board.supports_mig == known_boards()[board].supports_mig
        assert gpu.product_name in known_boards()[board].product_names
