import pytest

from agents.simdriver.install import uninstall
from tests.unit.agents.nodes import Machine


@pytest.fixture
def machine(tmp_path):
    """Two GPUs on the simulated driver."""
    machine = Machine(tmp_path, gpus=2)
    yield machine
    if machine.journal is not None:
        machine.journal.close()
    machine.nvml.close()
    uninstall()
