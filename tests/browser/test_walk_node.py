"""The walk of an admin in docs/walk.md: from an empty portal to a node's first heartbeat with one
paste. The command is the one on the page, run by a shell; the agent is real, its driver simulated.
With WALK_PICTURES=1 it draws its pictures."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from playwright.sync_api import expect

from tests.browser.people import listen, seeded_stack
from tests.browser.test_walk import SMALL, Walk
from tests.services.stack import ROOT, Stack

pytestmark = pytest.mark.browser
# What stands between a machine without systemd and root, and the agent of this checkout.
INSTALLED = "sudo /opt/tessera/bin/tessera-agent"
FOLDER = "/var/lib/tessera-agent"


@pytest.fixture(scope="module")
def stack(tmp_path_factory):
    with seeded_stack(tmp_path_factory.mktemp("empty"), "tests.services.seed_empty") as stack:
        yield stack


@contextmanager
def pasted(stack: Stack, command: str) -> Iterator[None]:
    """The command in a shell of a machine with simulated GPUs, until the walk is over."""
    home = stack.var / "machine"
    home.mkdir()
    state = home / "driver.json"
    sizes = ("--board", "H200-141GB", "--gpus", "2", "--latency", "off")
    stack.manage_program("agents.simdriver", "create", "--path", str(state), *sizes)
    assert command.startswith(INSTALLED)
    assert FOLDER in command
    here = command.replace(INSTALLED, f"{sys.executable} -m agents")
    here = here.replace(FOLDER, str(home / "agent"))
    machine = {"TESSERA_SIMULATED_DRIVER": str(state), "TESSERA_RUNTIME": "process"}
    environment = {k: v for k, v in os.environ.items() if not k.startswith("TESSERA_")} | machine
    with (home / "agent.log").open("wb") as log:
        agent = subprocess.Popen(
            ["bash", "-c", here],
            cwd=ROOT,
            env=environment,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            yield
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(agent.pid, signal.SIGKILL)
            agent.wait()


@pytest.mark.slow
def test_an_admin_of_an_empty_portal_sees_a_nodes_first_heartbeat_after_one_paste(browser, stack):
    complaints: list[str] = []
    context = browser.new_context(viewport=SMALL)
    page = listen(context.new_page(), complaints)
    page.goto(stack.url)
    page.get_by_label("User name").fill("root")
    page.get_by_label("Password", exact=True).fill(stack.seeded["password"])
    walk = Walk(page, "node")
    walk.click("button", "Sign in")
    walk.picture("1-home")
    walk.click("link", "Add a node")
    page.get_by_label("Name", exact=True).fill("gpu01")
    walk.picture("2-name")
    walk.click("button", "Add the node")
    title = page.get_by_role("heading", level=1)
    expect(title).to_have_text("Waiting for gpu01")
    expect(page.get_by_role("list").filter(has_text="First heartbeat")).to_be_visible()
    walk.picture("3-command")
    assert len(walk.clicks) <= 3, walk.clicks
    command = page.locator("#run-command").text_content() or ""
    assert page.locator("#join-command").inner_text().startswith(f"{INSTALLED} install-service")
    with pasted(stack, command):
        # Nothing is pressed any more, and nothing is loaded again: the page follows by itself.
        expect(title).to_have_text("gpu01 is ready")
        expect(page.locator("#join-command")).to_have_count(0)
        reported = page.get_by_role("heading", name="What it reports")
        expect(reported).to_be_visible()
        expect(page.get_by_text("2 × NVIDIA H200", exact=False).first).to_be_visible()
        walk.picture("4-ready")
    context.close()
    assert complaints == []
