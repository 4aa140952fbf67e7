"""People with a browser: a fresh context each, in which nothing may complain."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import Browser, Page, expect

from tests.services.stack import Stack

SECONDS = 1_000  # Playwright counts milliseconds
PATIENCE = 300 * SECONDS  # a bound for what never comes
NARROW = {"width": 390, "height": 844}


@contextmanager
def seeded_stack(var: Path, program: str) -> Iterator[Stack]:
    """Only the web process: what it shows stands in the database and moves when a test writes."""
    stack = Stack(var=var)
    try:
        stack.seed(program)
        stack.start_web()
        yield stack
    finally:
        stack.__exit__()


def sign_in(page: Page, stack: Stack, name: str, path: str) -> None:
    """From the page that somebody wants to the door, and back to it."""
    page.goto(f"{stack.url}{path}")
    assert "/sign-in/" in page.url
    page.get_by_label("User name").fill(name)
    page.get_by_label("Password", exact=True).fill(stack.seeded["password"])
    page.get_by_role("button", name="Sign in", exact=True).click()
    expect(page).to_have_url(f"{stack.url}{path}")
    # The address is there before the scripts that listen to keys are.
    page.wait_for_load_state()


def switch_language(page: Page) -> None:
    """Press the button of the other language, and wait for its page: Chromium hangs if it is closed
    while a page is on its way."""
    language = page.locator("html").get_attribute("lang") or ""
    buttons = page.get_by_role("banner").get_by_role("button", name=re.compile("^(中文|English)$"))
    buttons.click()
    expect(page.locator("html")).not_to_have_attribute("lang", language)


def listen(page: Page, complaints: list[str]) -> Page:
    """Write down what its console says is wrong: a blocked style, a failed request, an error."""
    page.set_default_timeout(PATIENCE)
    page.on("console", lambda m: complaints.append(m.text) if m.type == "error" else None)
    page.on("pageerror", lambda error: complaints.append(str(error)))
    return page


@contextmanager
def people(
    browser: Browser, stack: Stack, path: str, expected: Callable[[str], bool] = lambda _: False
) -> Iterator[Callable[..., Page]]:
    """Opens a browser in which `name` has signed in and looks at `path`. At the end nothing may
    have complained but what the test itself brings about, as `expected` says."""
    contexts, complaints = [], []

    def open_as(name: str, **options) -> Page:
        contexts.append(browser.new_context(**options))
        page = listen(contexts[-1].new_page(), complaints)
        page.on("dialog", lambda dialog: complaints.append(dialog.message))
        sign_in(page, stack, name, path)
        return page

    yield open_as
    for context in contexts:
        context.close()
    assert [said for said in complaints if not expected(said)] == []
