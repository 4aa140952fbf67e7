"""One Chromium for each module, in which every test opens its own contexts, and one running stack
for all modules that start jobs. It ends with the browser tests: beside others it would take a
twentieth of a core."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import expect, sync_playwright

from tests.browser.people import PATIENCE
from tests.browser.seeded_web import Web, seeded_web
from tests.environment.chromium import CHROMIUM_ARGS
from tests.services.stack import Stack

# By default 5 s, in which a busy machine does not show every page.
expect.set_options(timeout=PATIENCE)


@pytest.fixture(scope="module")
def browser(chromium_path):
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium_path, args=CHROMIUM_ARGS)
        yield browser
        browser.close()


@pytest.fixture(scope="package")
def running_stack(tmp_path_factory) -> Iterator[Stack]:
    """The whole product on SQLite, with two simulated nodes that run jobs as processes. Each test
    ends the jobs that it started."""
    with Stack(var=tmp_path_factory.mktemp("running")) as stack:
        yield stack


@pytest.fixture(scope="package")
def seeded_pages(tmp_path_factory) -> Iterator[Web]:
    """A seeded cluster behind a web process without workers, for tests that only read its pages."""
    var = tmp_path_factory.mktemp("seeded")
    with seeded_web(var, jobs=120, nodes=10, users=12, projects=3) as web:
        yield web
