"""The machine of most tests of an agent."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from agents.simdriver.install import uninstall
from tests.unit.agents.nodes import Machine


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    machine = Machine(tmp_path)
    yield machine
    if machine.journal is not None:
        machine.journal.close()
    machine.nvml.close()
    uninstall()
