"""A real JupyterLab in Chromium: from Home to an executed cell, on an origin from which the portal
cannot be reached, and with the files of the last one.

On demand: `JUPYTER_PYTHON=<a python with jupyterlab> make test-slow`.
"""

from __future__ import annotations

import asyncio
import os
import re
import shlex
import socket
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import httpx
import pytest
from playwright.sync_api import Page, expect

from agents.contract.documents import (
    DesiredReplica,
    ObservedDocument,
    ObservedReplica,
    Rendezvous,
    ReplicaState,
)
from agents.contract.launcher_names import LauncherName
from agents.launchers.base import Launch
from agents.launchers.registry import LAUNCHERS
from agents.notebooks.watch import NotebookWatch
from portal.web.request.quick_starts import quick_start_values
from tests.browser.notebooks import check_origin, notebook_stack
from tests.browser.people import PATIENCE, sign_in
from tests.environment.programs import free_port
from tests.services.real_python import python_with
from tests.services.stack import Stack, until
from tests.unit.agents.documents import a_replica

pytestmark = [pytest.mark.browser, pytest.mark.on_demand, pytest.mark.slow]
PORT = 8888
MEETING = Rendezvous("127.0.0.1", 29_500)
IN_LAB = re.compile(r"http://lab--j\d+\.localhost.*/lab")
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
    python = Path(python_with("jupyterlab", "jupyter"))
    with notebook_stack(tmp_path_factory.mktemp("notebook"), python) as running:
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


def test_the_card_of_rstudio_leads_to_it(tmp_path):
    """JupyterLab takes its first page from LabApp: with ServerApp's it opened itself. That there is
    an RStudio Server behind the path is its image's part."""
    program = Path(python_with("jupyterlab", "jupyter")).parent / "jupyter"
    port, words = free_port(), shlex.split(quick_start_values("rstudio")["command"])
    replica = a_replica(launcher="jupyter", command=(*words, f"--port={port}"), volumes=())
    started = LAUNCHERS[LauncherName.JUPYTER].command(Launch(replica, MEETING))
    process = subprocess.Popen([program, *started[1:]], env=os.environ | {"HOME": str(tmp_path)})
    try:
        until(lambda: first_page(port).startswith("/rstudio"), what="the first page")
    finally:
        process.kill()
        process.wait()


def first_page(port: int) -> str:
    """Where its root leads; empty until it listens."""
    with suppress(httpx.TransportError):
        found = httpx.get(f"http://127.0.0.1:{port}/").headers["location"]
        assert not found.startswith("/lab"), found
        return found
    return ""


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
