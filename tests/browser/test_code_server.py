"""A real code-server in Chromium, by its template: its editor, its terminal and its file watcher
work through the portal, on an origin from which the portal cannot be reached, and what was saved is
in the next one.

On demand: `CODE_SERVER=<the program code-server> make test-slow`.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.browser.notebooks import check_origin, notebook_stack
from tests.browser.people import PATIENCE, people
from tests.services.stack import Stack, until

pytestmark = [pytest.mark.browser, pytest.mark.on_demand, pytest.mark.slow]
IN_CODE = re.compile(r"http://code--j\d+\.localhost.*folder=.*/nora$")
TEMPLATE = "/request/?start=vscode"


@pytest.fixture(scope="module")
def stack(tmp_path_factory, chromium_path) -> Iterator[Stack]:
    program = shutil.which(os.environ.get("CODE_SERVER", "code-server"))
    if program is None:
        pytest.skip("no code-server: set CODE_SERVER to the program")
    with notebook_stack(tmp_path_factory.mktemp("code"), Path(program)) as running:
        yield running


def test_the_template_opens_an_editor_whose_files_are_there_tomorrow(stack, browser):
    with people(browser, stack, TEMPLATE) as open_as:
        page = open_as("nora")
        code = start(page)
        check_origin(stack, code)
        check_terminal(stack, code)
        check_editor(stack, code)
        page.get_by_role("link", name="Cancel job").click()
        page.get_by_role("button", name="Cancel job").click()
        expect(page.get_by_role("heading", level=1)).to_contain_text("Cancelled")
        page.goto(f"{stack.url}{TEMPLATE}")
        expect(file_in(start(page), "kept.txt")).to_be_visible()


def start(page: Page) -> Page:
    """The editor, from the filled-in request."""
    expect(page.locator("[data-part=preview]")).to_contain_text("Can start now")
    page.get_by_role("button", name="Submit and start").click()
    with page.expect_popup() as opened:
        page.get_by_role("button", name="Open code").click()
    code = opened.value
    code.set_default_timeout(PATIENCE)
    expect(code).to_have_url(IN_CODE)
    expect(code.get_by_role("tree", name="Files Explorer")).to_be_visible()
    return code


def file_in(code: Page, name: str) -> Locator:
    return code.get_by_role("tree", name="Files Explorer").get_by_role("treeitem", name=name)


def check_terminal(stack: Stack, code: Page) -> None:
    """Its WebSockets work both ways: what is typed runs, and the explorer sees the new file."""
    code.keyboard.press("Control+Backquote")
    code.get_by_role("button", name="Trust Folder & Continue").click()

    def written() -> bool:
        # Until its prompt is there, what is typed is lost, and other views take the focus.
        code.locator(".xterm-screen").first.click()
        code.keyboard.insert_text("echo sum-$((40+2)) > kept.txt")
        code.keyboard.press("Enter")
        return saved_file(stack).exists() and saved_file(stack).read_text() == "sum-42\n"

    until(written, every=1, what="a line of the shell")
    expect(file_in(code, "kept.txt")).to_be_visible()


def check_editor(stack: Stack, code: Page) -> None:
    file_in(code, "kept.txt").dblclick()
    expect(code.locator(".view-lines").first).to_contain_text("sum-42")
    code.locator(".view-lines").first.click()
    code.keyboard.press("Control+Home")
    code.keyboard.insert_text("today ")
    code.keyboard.press("Control+s")
    until(lambda: saved_file(stack).read_text() == "today sum-42\n", what="the saved file")


def saved_file(stack: Stack) -> Path:
    return Path(stack.seeded["homes"]) / "nora" / "kept.txt"
