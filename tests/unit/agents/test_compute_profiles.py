"""Which compute profile fills a GPU instance: by slices and SM, never by its number."""

import pynvml
import pytest

from agents.nvml.errors import NvmlCode, NvmlFailure
from agents.nvml.profile_constants import ComputeProfile, InstanceProfile, full_width_profile
from agents.simdriver.codes import Code
from tests.support.carving import Carving

WHOLE = InstanceProfile(0, "7g.141gb", 7, 132, 1)
PARTS = [ComputeProfile(0, 1, 16, 7), ComputeProfile(1, 2, 32, 3), ComputeProfile(2, 3, 48, 2)]
FULL = ComputeProfile(4, 7, 132, 1)
# nvml.h: 7 is a variant of one slice, 8 one of seven with fewer SM.
VARIANTS = [ComputeProfile(7, 1, 26, 1), ComputeProfile(8, 7, 124, 1)]


def test_a_higher_number_is_no_wider_profile():
    assert full_width_profile(WHOLE, [*PARTS, FULL, *VARIANTS]) == FULL


def test_without_one_of_all_sm_one_of_all_slices_is_taken():
    assert full_width_profile(WHOLE, [*PARTS, *VARIANTS]) == VARIANTS[1]


def test_a_double_memory_slice_takes_its_variant_of_one_slice():
    small = InstanceProfile(15, "1g.35gb", 1, 26, 4)
    offered = [ComputeProfile(0, 1, 16, 1), ComputeProfile(7, 1, 26, 1)]
    assert full_width_profile(small, offered) == offered[1]


def test_none_of_full_width_is_none():
    assert full_width_profile(WHOLE, PARTS) is None


@pytest.fixture
def node(tmp_path):
    node = Carving(tmp_path)
    yield node
    node.end()


def test_on_a_driver_with_more_profiles_than_ours_the_whole_instance_is_filled(node):
    """A driver that also offers profile 8, which `max` would take."""
    library = pynvml.nvmlLib
    plain = library.nvmlGpuInstanceGetComputeInstanceProfileInfoV
    listing = library.nvmlGpuInstanceGetComputeInstances

    def also_eight(handle, query, engine, out):
        if query != 8:
            return plain(handle, query, engine, out)
        code = plain(handle, 4, engine, out)
        if code == 0:
            out._obj.id, out._obj.multiprocessorCount = 8, out._obj.multiprocessorCount - 8
        return code

    def none_of_eight(handle, profile, array, count):
        if profile != 8:
            return listing(handle, profile, array, count)
        count._obj.value = 0
        return 0

    with (
        node.instead("nvmlGpuInstanceGetComputeInstanceProfileInfoV", also_eight),
        node.instead("nvmlGpuInstanceGetComputeInstances", none_of_eight),
    ):
        node.wish(("7g.141gb", 0, 8))
        assert node.problems() == [] and list(node.slices()) == [("7g.141gb", 0)]
        (gpu,) = node.machine.store.node().gpus
        assert [compute.profile_id for compute in gpu.instances[0].compute] == [4]


def test_an_instance_that_no_profile_fills_is_refused_and_leaves_nothing(node):
    node.wish()
    with (
        node.instead(
            "nvmlGpuInstanceGetComputeInstanceProfileInfoV", lambda *_: Code.NOT_SUPPORTED
        ),
        pytest.raises(NvmlFailure) as failure,
    ):
        node.machine.nvml.create_instance(node.gpu, 19, 0, 1)
    assert failure.value.code is NvmlCode.NOT_SUPPORTED
    assert node.slices() == {}
