"""Short folders and a machine that leaves nothing behind."""

import shutil
import tempfile
from pathlib import Path

import pytest

from agents.simdriver.install import uninstall
from tests.docker.docker_node import docker_node
from tests.unit.mps.stage import Stage


@pytest.fixture
def var():
    """Short: the path of a socket is at most 107 bytes."""
    folder = Path(tempfile.mkdtemp(prefix="mps-"))
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def stage(var):
    stage = Stage(var)
    yield stage
    stage.close()
    uninstall()


__all__ = ["docker_node", "stage", "var"]
