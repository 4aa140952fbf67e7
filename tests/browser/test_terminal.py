"""The owner of a running job with a terminal in the page: keys, reload, colours, hostile output."""

from __future__ import annotations

import re
import sys

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page, expect

from tests.browser.people import NARROW, people

pytestmark = [pytest.mark.browser, pytest.mark.slow]
WAITS = "import signal; print('up', flush=True); signal.pause()"
# Kind, state, cursor, version, modes, colours, sizes, and the clipboard.
QUERIES = (
    r"\033[c\033[>c\033[=c\033[5n\033[6n\033[?6n\033[>q\033[?25\$p\033[14t\033[18t"
    r"\033]4;1;?\007\033]10;?\007\033]11;?\007\033P\$qm\033\\\033Z\033]52;c;aGFja2Vk\007"
)


@pytest.fixture
def job(running_stack):
    name = running_stack.submit([sys.executable, "-c", WAITS])
    running_stack.until_status(name, "running")
    yield name
    running_stack.call("POST", f"/jobs/{name}/cancel")
    running_stack.until_status(name, "cancelled")


@pytest.fixture
def signed_in(browser, running_stack):
    with people(browser, running_stack, "/jobs/") as open_as:
        yield open_as


def opened(page: Page, stack, job: str):
    """Its screen, with a shell that has answered."""
    page.goto(f"{stack.url}/jobs/{job}/terminal")
    page.get_by_role("button", name="Open a terminal").click()
    expect(page.get_by_role("status").filter(has_text="Connected")).to_be_visible()
    screen = page.locator(".xterm-rows")
    page.keyboard.type('PS1=@""@:; clear; echo fi""rst\n')
    expect(screen).to_contain_text("first")
    return screen


def test_it_is_typed_in_shown_again_after_a_reload_and_ended(signed_in, running_stack, job):
    page, sockets = signed_in("alice"), []
    page.on("websocket", lambda socket: sockets.append(socket))
    screen = opened(page, running_stack, job)
    page.keyboard.type("sh -c 'echo rea\"\"dy; exec sleep 1000'\n")
    expect(screen).to_contain_text("ready")
    page.keyboard.press("Control+c")
    expect(screen).to_contain_text(re.compile(r"\^C\s*@@:"))
    page.keyboard.type('echo int""errupted $?\n')
    expect(screen).to_contain_text("interrupted 130")
    page.reload()
    expect(screen).to_contain_text("interrupted 130")
    before = screen.evaluate("rows => getComputedStyle(rows).color")
    page.get_by_role("button", name="Light or dark").click()
    page.wait_for_function(
        "before => getComputedStyle(document.querySelector('.xterm-rows')).color !== before",
        arg=before,
    )
    page.get_by_role("region", name="Terminal").click()
    page.keyboard.press("Shift+F6")
    expect(page.get_by_role("button", name="End it")).to_be_focused()
    page.get_by_role("region", name="Terminal").click()
    # It counts as one of those that a user may have open.
    with sockets[-1].expect_event("close"):
        page.keyboard.type("exit 3\n")
    expect(page.get_by_role("status").filter(has_text="The shell has ended (3)")).to_be_visible()
    page.get_by_role("button", name="Open a terminal").click()
    expect(page.get_by_role("status").filter(has_text="Connected")).to_be_visible()
    page.get_by_role("button", name="End it").click()
    expect(page.get_by_role("status").filter(has_text="The shell has ended")).to_be_visible()


def test_what_is_printed_types_no_answer_and_reaches_no_clipboard(signed_in, running_stack, job):
    page = signed_in("alice", permissions=["clipboard-read", "clipboard-write"])
    screen = opened(page, running_stack, job)
    page.evaluate("navigator.clipboard.writeText('mine')")
    page.keyboard.type(f"printf '{QUERIES}'; read -t 2 -n 1 key || echo qui\"\"et\n")
    expect(screen).to_contain_text("quiet")
    assert page.evaluate("navigator.clipboard.readText()") == "mine"


def test_it_follows_the_window_and_stands_on_a_phone(signed_in, running_stack, job):
    page = signed_in("alice")
    screen = opened(page, running_stack, job)
    page.keyboard.type("stty size | tr ' ' x; echo do\"\"ne\n")
    expect(screen).to_contain_text("done")
    page.set_viewport_size(NARROW)
    page.keyboard.type("clear; while test $(stty size | cut -d' ' -f2) -gt 60; do :; done\n")
    page.keyboard.type('echo nar""row\n')
    expect(screen).to_contain_text("narrow")
    assert page.evaluate("document.documentElement.scrollWidth") <= NARROW["width"]
    found = Axe().run(page).response["violations"]
    assert [v["id"] for v in found if v["impact"] in ("serious", "critical")] == []


def test_output_in_a_flood_arrives_whole(signed_in, running_stack, job):
    page = signed_in("alice")
    screen = opened(page, running_stack, job)
    page.keyboard.type('seq 200000; echo fin""ished\n')
    expect(screen).to_contain_text("finished")
    expect(screen).to_contain_text("200000")
