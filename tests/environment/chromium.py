"""Debian's Chromium, for Playwright's `executable_path`, and the flags it needs in a container."""

from __future__ import annotations

import pytest

from tests.environment.debian import CHROMIUM
from tests.environment.levels import skip_without

CHROMIUM_ARGS = (
    "--no-sandbox",  # its sandbox refuses root
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
)


@pytest.fixture(scope="session")
def chromium_path() -> str:
    """launch(executable_path=chromium_path, args=CHROMIUM_ARGS)."""
    skip_without(CHROMIUM)
    path = CHROMIUM.path()
    assert path
    return path
