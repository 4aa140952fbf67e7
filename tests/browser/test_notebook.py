"""A real JupyterLab in Chromium: from Home to an executed cell, on an origin from which the portal
cannot be reached, and with the files of the last one.

On demand: `JUPYTER_PYTHON=<a python with jupyterlab> make test-slow`.
"""

from __future__ import annotations

import asyncio
import os
import re
import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from agents.contract.documents import (
    DesiredReplica,
    ObservedDocument,
    ObservedReplica,
    ReplicaState,
)
from agents.contract.launcher_names import LauncherName
from agents.notebooks.watch import NotebookWatch
from tests.browser.people import PATIENCE, sign_in
from tests.services.real_python import python_with
from tests.services.stack import Stack

pytestmark = [pytest.mark.browser, pytest.mark.on_demand, pytest.mark.slow]
PORT = 8888
IN_LAB = re.compile(r"http://lab--j\d+\.localhost.*/lab")
# What a script of a page would try: the reader's own session at the portal.
CALL = """async (url) => {
  try { const answer = await fetch(url, {credentials: 'include'}); return await answer.text() }
  catch (error) { return String(error) }
}"""
SHELL = """async () => {
  const xsrf = document.cookie.match(/_xsrf=([^;]+)/)[1];
  const made = await fetch('/api/terminals', {method: 'POST', headers: {'X-XSRFToken': xsrf}});
  const name = (await made.json()).name;
  const wire = new WebSocket(`ws://${location.host}/terminals/websocket/${name}`);
  return await new Promise((resolve, reject) => {
    let seen = '';
    wire.onopen = () => wire.send(JSON.stringify(['stdin', 'echo sum-$((40+2))\\r']));
    wire.onmessage = (event) => {
      seen += JSON.parse(event.data)[1] ?? '';
      if (seen.includes('sum-42')) { wire.close(); resolve('sum-42') }
    };
    wire.onerror = () => reject('no terminal');
  });
}"""
FILE = "async (path) => (await (await fetch(`/api/contents/${path}?content=1`)).json()).content"


@pytest.fixture(scope="module")
def stack(tmp_path_factory, chromium_path) -> Iterator[Stack]:
    python = python_with("jupyterlab", "jupyter")
    var = tmp_path_factory.mktemp("notebook")
    # Below `var`: what works there ends with the stack.
    homes = var / "homes"
    homes.mkdir(mode=0o755)
    running = Stack(var=var, nodes=("node-a",), policy=f'[volumes]\nscratch = "{homes}"\n')
    path = f"{Path(python).parent}:{os.environ['PATH']}"
    running.extra_env = {"TESSERA_APPS_DOMAIN": "localhost", "PATH": path}
    with running:
        running.manage_program("tests.services.add_homes", "scratch")
        running.seeded["homes"] = str(homes)
        yield running


@pytest.fixture
def page(browser) -> Iterator[Page]:
    context = browser.new_context()
    context.set_default_timeout(PATIENCE)
    page = context.new_page()
    yield page
    context.close()


def test_from_home_to_an_executed_cell_in_four_clicks_and_back_tomorrow(stack, page):
    sign_in(page, stack, "nora", "/")
    page.get_by_role("link", name="Fill in the request: JupyterLab").click()
    expect(page.locator("[data-part=preview]")).to_contain_text("Can start now")
    page.get_by_role("button", name="Submit and start").click()
    with page.expect_popup() as opened:
        page.get_by_role("button", name="Open lab").click()
    lab = opened.value
    expect(lab).to_have_url(IN_LAB)
    lab.locator(".jp-LauncherCard", has_text="Python 3").first.click()
    # Four clicks. The first cell is selected; what is typed before its kernel answers is lost.
    expect(lab.get_by_text(re.compile("Idle$"))).to_be_visible()
    lab.keyboard.press("Enter")
    expect(lab.locator(".jp-Notebook .cm-focused")).to_be_visible()
    lab.keyboard.insert_text("open('kept.txt', 'w').write('today'); print(6 * 7)")
    lab.keyboard.press("Shift+Enter")
    expect(lab.locator(".jp-OutputArea-output").first).to_have_text("42")

    check_origin(stack, lab)
    assert lab.evaluate(SHELL) == "sum-42"
    check_watch()
    check_tomorrow(stack, page)


def check_origin(stack: Stack, page: Page) -> None:
    """A script of the page gets nothing of the portal, with the reader's cookies neither."""
    assert page.evaluate("location.origin") != stack.url
    said = page.evaluate(CALL, f"{stack.url}/api/v1/me")
    assert "Failed to fetch" in said and "nora" not in said
    assert "nora" not in page.evaluate(CALL, "/api/v1/me")


def check_watch() -> None:
    """The agent understands what this Jupyter says of its kernels."""
    seen = ObservedReplica(id="r", job="j", state=ReplicaState.RUNNING)
    replica = DesiredReplica("r", "j", launcher=LauncherName.JUPYTER)
    reports: list[ObservedDocument] = []

    def connect(_: object) -> socket.socket:
        return socket.create_connection(("127.0.0.1", PORT), 30)

    watch = NotebookWatch(connect, lambda: (replica,))
    watch.tap_reports(reports.append)(ObservedDocument("n", replicas=(seen,)))
    # Playwright has a loop of its own in this thread.
    with ThreadPoolExecutor(1) as thread:
        thread.submit(asyncio.run, watch.ask_all()).result()
    (told,) = reports[-1].replicas
    assert told.notebook is not None and told.notebook.idle_minutes == 0


def check_tomorrow(stack: Stack, page: Page) -> None:
    """Home opens it as well; it is stopped, and the next one has its file."""
    assert (Path(stack.seeded["homes"]) / "nora" / "kept.txt").read_text() == "today"
    expect(page.locator("[data-part=running]")).to_contain_text("volume homes are kept")
    page.get_by_role("link", name="Cancel job").click()
    page.get_by_role("button", name="Cancel job").click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("Cancelled")
    page.goto(f"{stack.url}/request/?start=jupyterlab")
    page.get_by_role("button", name="Submit and start").click()
    expect(page.get_by_role("button", name="Open lab")).to_be_visible()
    page.goto(f"{stack.url}/")
    with page.expect_popup() as opened:
        page.get_by_role("button", name="Open jupyterlab").click()
    expect(opened.value).to_have_url(IN_LAB)
    assert opened.value.evaluate(FILE, "kept.txt") == "today"
