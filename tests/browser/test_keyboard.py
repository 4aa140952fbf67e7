"""Without a mouse: ask, take an alternative, cancel and undo it, filter. Where the focus is, is
seen, and it is never lost."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Page, expect

from tests.browser.people import people

pytestmark = pytest.mark.browser
# More than any page has: whoever needs them all has lost the way.
MOST_TABS = 90
# What has the focus, as a reader of the screen hears it, and whether a ring is drawn around it.
FOCUSED = """() => {
  const one = document.activeElement, style = getComputedStyle(one);
  const name = one.getAttribute("aria-label") || one.labels?.[0]?.innerText || one.innerText || "";
  const box = one.getBoundingClientRect();
  return {
    name: name.trim(),
    tag: one.tagName.toLowerCase(),
    ring: style.outlineStyle !== "none" && parseFloat(style.outlineWidth) >= 2,
    seen: box.width > 0 && box.bottom > 0 && box.top < innerHeight,
  };
}"""
# A live part with a field in it, and the event that brings it anew.
NOTE = """(words) => document.querySelector("main").insertAdjacentHTML("beforeend",
  `<p data-part="note">${words}<input id="typed" aria-label="Note"></p>`)"""
SWAP_NOTE = """async (words) => (await import("/static/parts.js")).swapParts(
  `<p data-part="note">${words}<input id="typed" aria-label="Note"></p>`)"""


@pytest.fixture(scope="module")
def stack(running_stack):
    return running_stack


@pytest.fixture
def signed_in(browser, stack):
    with people(browser, stack, "/jobs/") as open_as:
        yield open_as


def press_until(page: Page, name: str, tag: str = "") -> list[dict]:
    """Tab to what is called so. On the way everything that has the focus shows it."""
    walked = []
    for _ in range(MOST_TABS):
        page.keyboard.press("Tab")
        one = page.evaluate(FOCUSED)
        walked.append(one)
        if one["name"].startswith(name) and one["tag"].startswith(tag):
            # Behind the last one the browser's own bar has it, and the page none.
            inside = (each for each in walked if each["tag"] != "body")
            hidden = [each for each in inside if not (each["ring"] and each["seen"])]
            assert not hidden, f"on {page.url} nobody sees that these have the focus: {hidden}"
            return walked
    raise AssertionError(f"no {name!r} by keyboard on {page.url}: {[w['name'] for w in walked]}")


def activate(page: Page, name: str, tag: str = "") -> None:
    press_until(page, name, tag)
    page.keyboard.press("Enter")


def test_the_first_tab_skips_what_every_page_begins_with(signed_in, stack):
    page = signed_in("wren")
    for path in ("/", "/request/", "/jobs/", "/queue/", "/cluster/", "/usage/", "/account/"):
        page.goto(f"{stack.url}{path}")
        page.keyboard.press("Tab")
        first = page.evaluate(FOCUSED)
        assert first["name"] == "Skip to content" and first["seen"], path
        page.keyboard.press("Enter")
        page.keyboard.press("Tab")
        inside = page.evaluate("document.querySelector('main').contains(document.activeElement)")
        assert inside, f"on {path} the focus is not in the content"


def test_a_job_is_asked_for_cancelled_and_asked_for_again(signed_in, stack):
    page = signed_in("wren")
    activate(page, "New request", "a")
    expect(page).to_have_url(f"{stack.url}/request/")
    press_until(page, "Name", "input")
    page.keyboard.press("Control+A")
    page.keyboard.type("by-hand")
    press_until(page, "Command", "input")
    page.keyboard.press("Control+A")
    page.keyboard.type("sleep 300")
    # Enter in a field sends the form, and takes no alternative.
    page.keyboard.press("Enter")
    title = page.get_by_role("heading", level=1)
    expect(title).to_contain_text("by-hand")
    expect(title).to_contain_text("Running")

    activate(page, "Cancel job", "a")
    expect(title).to_contain_text("Cancel by-hand")
    activate(page, "Keep job", "a")
    expect(title).to_contain_text("Running")
    activate(page, "Cancel job", "a")
    expect(title).to_contain_text("Cancel by-hand")
    activate(page, "Cancel job", "button")
    expect(page.get_by_role("status").first).to_contain_text("you can retry it")
    expect(title).to_contain_text("Cancelled")

    before = page.url
    activate(page, "Retry", "button")
    expect(page).not_to_have_url(before)
    expect(title).to_contain_text(re.compile("Queued|Placed|Preparing|Running"))
    page.goto(f"{page.url}cancel")
    activate(page, "Cancel job", "button")
    expect(title).to_contain_text("Cancelled")


@pytest.mark.slow
def test_an_alternative_is_taken(signed_in, stack):
    page = signed_in("wren")
    page.goto(f"{stack.url}/request/")
    # Five GPUs together are nowhere: a node has two.
    page.get_by_label("Name", exact=True).fill("too-large")
    page.locator("input[value=gpus]").check()
    page.get_by_label("Whole GPUs per replica").fill("5")
    answer = page.locator("[data-part=preview]")
    expect(answer).to_contain_text("Could run here")
    said = answer.locator("button[name=alternative]").first.inner_text()
    page.get_by_label("Name", exact=True).focus()
    activate(page, said, "button")
    expect(page.locator("[data-part=preview]")).to_contain_text("Can start now")
    expect(page.get_by_label("Name", exact=True)).to_have_value("too-large")


@pytest.mark.slow
def test_the_list_is_filtered_and_the_filter_taken_away(signed_in, stack):
    sought = stack.submit(["true"], name="needle")
    page = signed_in("wren")
    press_until(page, "Name or number", "input")
    page.keyboard.type("needle")
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile("name=needle"))
    expect(page.get_by_role("link", name="needle")).to_be_visible()
    press_until(page, "Order", "select")
    activate(page, "More filters", "summary")
    expect(page.get_by_label("Owner", exact=True)).to_be_visible()
    activate(page, "Filter", "button")
    page.get_by_role("searchbox").focus()
    activate(page, "Clear filters", "a")
    expect(page).to_have_url(f"{stack.url}/jobs/?project=")
    stack.until_status(sought, "succeeded")


def test_what_is_live_does_not_take_the_focus_away(signed_in, stack):
    page = signed_in("wren")
    page.goto(f"{stack.url}/request/")
    field = page.get_by_label("Replicas")
    field.focus()
    page.keyboard.press("Control+A")
    page.keyboard.type("2")
    expect(page.locator("[data-part=preview] .figures")).to_be_visible()
    expect(field).to_be_focused()
    page.get_by_text("Command line", exact=True).focus()
    page.keyboard.press("Enter")
    expect(page.locator("#command-line")).to_be_visible()
    assert page.evaluate(FOCUSED)["tag"] == "summary"
    # What is typed in a live part is not replaced; the newest part comes once the focus has left.
    page.evaluate(NOTE, "old")
    page.locator("#typed").fill("by hand")
    page.evaluate(SWAP_NOTE, "new")
    expect(page.locator("[data-part=note]")).to_contain_text("old")
    expect(page.locator("#typed")).to_be_focused()
    field.focus()
    expect(page.locator("[data-part=note]")).to_contain_text("new")
    expect(page.locator("#typed")).to_have_value("by hand")
