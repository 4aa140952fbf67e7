"""The page of the API for people: offline, complete, and without a complaint of the browser."""

from __future__ import annotations

import os
import sys
import time
import urllib.request
from pathlib import Path

import pytest
from playwright.sync_api import expect, sync_playwright

from tests.environment.chromium import CHROMIUM_ARGS
from tests.environment.programs import Program, free_port

pytestmark = pytest.mark.browser
REPOSITORY = Path(__file__).resolve().parent.parent.parent
SERVE = (
    *("-m", "uvicorn", "portal.asgi:application", "--no-proxy-headers"),
    *("--host", "127.0.0.1", "--port"),
)


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory):
    """The web process alone: this page asks no database."""
    var: Path = tmp_path_factory.mktemp("docs")
    port = free_port()
    names = {"DJANGO_SETTINGS_MODULE": "portal.settings.dev", "TESSERA_VAR": str(var)}
    program = Program(
        [sys.executable, *SERVE, str(port), "--log-level", "warning"],
        log=var / "web.log",
        environ=os.environ | names | {"PYTHONPATH": str(REPOSITORY)},
    )
    found = f"http://127.0.0.1:{port}/api/v1/docs/"
    try:
        program.wait_ready(lambda: _answers(found))
        yield found
    finally:
        program.stop()


def _answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=30):
            return True
    except OSError:
        time.sleep(0.1)
        return False


@pytest.mark.slow
def test_the_page_shows_every_noun_and_the_browser_has_nothing_to_say(url, chromium_path):
    complaints: list[str] = []
    asked: list[str] = []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium_path, args=CHROMIUM_ARGS)
        # Of many operations, Swagger UI draws those that are near the window.
        page = browser.new_page(viewport={"width": 1280, "height": 12_000})
        page.on("console", lambda m: complaints.append(m.text) if m.type == "error" else None)
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("request", lambda request: asked.append(request.url))
        page.goto(url)
        expect(page.locator("#operations-jobs-job_submit")).to_be_visible(timeout=60_000)
        expect(page.locator("#operations-webhooks-webhook_add")).to_be_visible()
        page.locator("#operations-jobs-job_submit .opblock-summary-control").click()
        expect(page.get_by_text("train-small").first).to_be_visible()
        browser.close()
    assert complaints == []
    host = url.split("/api/")[0]
    assert [address for address in asked if not address.startswith((host, "data:"))] == []
