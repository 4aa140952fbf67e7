"""Parallel workers (`-n auto`): which tests stay together, and which resources are separate.

Each worker has its own databases, servers, ports and folders, as a run without workers has. Only
the Docker Engine may be shared, so the tests that count what is left on it run on one worker.
"""

from __future__ import annotations

import functools
import os
import shutil
import tempfile
from pathlib import Path

import pytest
from django.conf import settings
from xdist.scheduler.loadscope import LoadScopeScheduling

from tests.environment.levels import level_of

# Fixtures of tests/browser/conftest.py.
SHARED_SERVERS = ("running_stack", "seeded_pages")


class Together(LoadScopeScheduling):
    """Groups go to the next free worker in the order of the command line, slow ones first."""

    def _split_scope(self, nodeid: str) -> str:
        return group_of(nodeid)


def group_of(nodeid: str) -> str:
    """The file, because its tests share fixtures; a property test is slow and shares nothing. Files
    that share one server are one group, so that not every worker starts it."""
    file, _, name = nodeid.partition("::")
    level = level_of(file)
    if level == "docker" or "[docker" in name:
        return "docker"
    if level == "property":
        return nodeid
    return _shared_server(file) if level == "browser" else file


@functools.cache
def _shared_server(file: str) -> str:
    """The fixture of the folder that the file uses; of others the file itself."""
    text = Path(file).read_text() if Path(file).exists() else ""
    return next((name for name in SHARED_SERVERS if name in text), file)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> LoadScopeScheduling:
    config.option.loadscopereorder = False
    return Together(config, log)


def own_folder() -> Path | None:
    """The folder that portal.settings.test made for this process; None if the caller named one."""
    var = Path(settings.PLATFORM.var)
    made = var.parent == Path(tempfile.gettempdir()) and var.name.startswith("tessera-test-")
    return var if made else None


def pytest_configure(config: pytest.Config) -> None:
    """Workers take this process's environment: without its folder, each makes its own."""
    if config.getoption("tx", None) and own_folder():
        os.environ.pop("TESSERA_VAR", None)


def pytest_unconfigure() -> None:
    if folder := own_folder():
        shutil.rmtree(folder, ignore_errors=True)
