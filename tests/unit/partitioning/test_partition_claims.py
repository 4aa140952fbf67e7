"""What an agent takes for its own while it carves."""

from ctypes import byref

import pynvml
import pytest

from tests.support.carving import HIGH, Carving


@pytest.fixture
def node(tmp_path):
    node = Carving(tmp_path)
    yield node
    node.end()


def test_a_strangers_instance_in_the_place_of_a_deleted_one_is_not_ours(node):
    """The driver gives it the number that ours had, so that only the claim could tell."""
    node.wish(HIGH)
    number = node.instance(4)
    node.wish()
    gpu = pynvml.nvmlDeviceGetHandleByUUID(node.gpu)
    place = pynvml.c_nvmlGpuInstancePlacement_t(4, 2)
    pynvml.nvmlDeviceCreateGpuInstanceWithPlacement(gpu, 14, byref(place))
    assert node.instance(4) == number
    node.live(3)
    assert node.slices() == {("2g.35gb", 4): ""}, "it is left alone"
    assert node.problems() == ["unmanaged"]
