"""A person with a browser: sign in, ask, watch it live, stop it; nothing breaks on the way."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Page, expect

from tests.browser.people import NARROW, listen, sign_in, switch_language
from tests.services.stack import Stack

pytestmark = pytest.mark.browser
# One's own pieces on the large map.
MINE = "svg.map rect.mine[height='43']"


@pytest.fixture(scope="module")
def stack(running_stack):
    return running_stack


@pytest.fixture
def complaints() -> list[str]:
    """What the browser's console said: a blocked style, a failed request, an exception."""
    return []


@pytest.fixture
def page(browser, stack, complaints):
    """A fresh browser in which alice has signed in."""
    context = browser.new_context()
    page = listen(context.new_page(), complaints)
    sign_in(page, stack, "alice", "/request/")
    yield page
    context.close()
    assert complaints == []


def ask(page: Page, stack: Stack, name: str, script: str) -> None:
    """Fill in the request page for the smallest slice and send it."""
    page.goto(f"{stack.url}/request/")
    page.get_by_label("Name", exact=True).fill(name)
    page.get_by_label("Command", exact=True).fill(f"sh -c '{script}'")
    page.locator("input[value='memory:16GiB']").check()
    page.get_by_role("button", name="Submit and start").first.click()
    expect(page.get_by_role("heading", level=1)).to_contain_text(name)


def test_a_request_becomes_a_result_before_ones_eyes(page, stack, tmp_path):
    seen = tmp_path / "seen"
    waits = f"while ! test -e {seen}; do sleep 0.1; done"
    ask(page, stack, "watched", f"echo first; {waits}; echo $TESSERA_DEVICES; echo last")
    title = page.get_by_role("heading", level=1)
    expect(title).to_contain_text("Running")
    log = page.get_by_role("log")
    expect(log).to_contain_text("first")
    seen.touch()
    expect(title).to_contain_text("Succeeded")
    expect(log).to_contain_text("last")
    expect(log).to_contain_text("MIG-")
    expect(page.get_by_role("link", name="Cancel job")).to_have_count(0)

    page.get_by_role("link", name="Home").click()
    expect(page.get_by_role("link", name="watched")).to_be_visible()
    page.get_by_role("link", name="Cluster", exact=True).click()
    expect(page.locator("#table")).to_contain_text("idle")


@pytest.mark.slow
def test_what_runs_is_seen_on_the_map_and_can_be_stopped(page, stack):
    watching = page.context.new_page()
    watching.goto(f"{stack.url}/cluster/")
    ask(page, stack, "stopped", 'trap "exit 0" TERM; while true; do sleep 0.1; done')
    title = page.get_by_role("heading", level=1)
    expect(title).to_contain_text("Running")
    address = page.url
    expect(watching.locator(MINE)).to_have_count(1)
    watching.close()

    page.get_by_role("link", name="Cluster", exact=True).click()
    expect(page.locator(MINE)).to_have_count(1)

    page.goto(address)
    page.get_by_role("link", name="Cancel job").click()
    page.get_by_role("button", name="Cancel job").click()
    expect(title).to_contain_text("Cancelled")


def test_the_answer_follows_what_is_typed(page, stack):
    page.goto(f"{stack.url}/request/")
    answer = page.locator("[data-part=preview]")
    expect(answer).to_contain_text("Can start now")
    page.get_by_label("Replicas").fill("1000")
    expect(answer).to_contain_text("Incomplete")
    page.get_by_label("Replicas").fill("1")
    page.locator("input[value='gpus']").check()
    page.get_by_label("Whole GPUs per replica").fill("9")
    expect(answer).to_contain_text("Cannot run on this cluster")


def test_no_page_scrolls_sideways_on_a_phone_in_either_language(page, stack):
    page.set_viewport_size(NARROW)
    for language in ("en", "zh-Hans"):
        for path in ("/", "/jobs/", "/request/", "/cluster/"):
            page.goto(f"{stack.url}{path}")
            assert page.locator("html").get_attribute("lang") == language
            width = page.evaluate("document.documentElement.scrollWidth")
            assert width <= NARROW["width"], f"{path} is {width} wide in {language}"
        switch_language(page)


def test_without_javascript_a_request_can_still_be_made(browser, stack):
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(f"{stack.url}/request/")
    page.get_by_label("User name").fill("alice")
    page.get_by_label("Password").fill(stack.seeded["password"])
    page.get_by_role("button", name="Sign in", exact=True).click()
    ask(page, stack, "plain", "echo ok")
    assert re.search(r"/jobs/J-\d+/$", page.url)
    context.close()
