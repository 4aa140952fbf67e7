"""A simulated node behind pynvml with MIG on, for tests that call the driver directly."""

import pynvml
import pytest

from tests.contract.drivers import SimulatedNode, simulated


@pytest.fixture
def node(request, tmp_path):
    board = getattr(request, "param", "H200-141GB")
    with simulated(tmp_path / "driver.json", board) as node:
        node.nvml.set_mig_mode(node.gpu, on=True)
        yield node


@pytest.fixture
def gpu(node: SimulatedNode):
    return pynvml.nvmlDeviceGetHandleByUUID(node.gpu)
