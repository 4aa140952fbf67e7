"""Folders with short paths, and a machine that leaves nothing behind."""

import shutil
import tempfile
from pathlib import Path

import pytest

from agents.facts.device_keys import device_key
from agents.mps.grants import daemon_folders
from agents.simdriver.install import uninstall
from tests.unit.mps.contained import DEVICE
from tests.unit.mps.stage import Stage, a_share


@pytest.fixture
def var():
    """Short: the path of a socket is at most 107 bytes."""
    folder = Path(tempfile.mkdtemp(prefix="mps-"))
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def home(var):
    """The folders of one daemon, for a share of DEVICE."""
    home = daemon_folders(var / "mps", "p-1", device_key(a_share(DEVICE, 40, 8_000)))
    yield home
    shutil.rmtree(home.shm, ignore_errors=True)


@pytest.fixture
def stage(var):
    stage = Stage(var)
    yield stage
    stage.close()
    uninstall()
