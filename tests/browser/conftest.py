"""One Chromium a module; every test opens fresh contexts in it."""

from __future__ import annotations

import pytest
from playwright.sync_api import sync_playwright

from tests.environment.chromium import CHROMIUM_ARGS


@pytest.fixture(scope="module")
def browser(chromium_path):
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium_path, args=CHROMIUM_ARGS)
        yield browser
        browser.close()
