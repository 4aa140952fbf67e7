"""The search, the command palette and the keys of every page, by keyboard and without scripts."""

from __future__ import annotations

import re

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Locator, Page, expect

from tests.browser.people import NARROW, people, seeded_stack

pytestmark = pytest.mark.browser
ACTIVE = "document.activeElement.getAttribute('aria-activedescendant')"


@pytest.fixture(scope="module")
def stack(tmp_path_factory):
    with seeded_stack(tmp_path_factory.mktemp("search"), "tests.services.seed_lists") as stack:
        yield stack


@pytest.fixture
def signed_in(browser, stack):
    with people(browser, stack, "/queue/") as open_as:
        yield open_as


def options_of(page: Page) -> Locator:
    """Of the palette: pages have choices of their own."""
    return page.locator("#palette").get_by_role("option")


def no_serious_findings(page: Page) -> None:
    found = Axe().run(page)
    bad = [v for v in found.response["violations"] if v["impact"] in ("serious", "critical")]
    assert not bad, [(v["id"], [n["html"] for n in v["nodes"]]) for v in bad]


@pytest.mark.slow
def test_the_palette_finds_a_job_and_opens_it_by_keyboard(signed_in, stack):
    page = signed_in("alice")
    page.keyboard.press("/")
    box = page.get_by_role("combobox", name="Search jobs")
    expect(box).to_be_focused()
    expect(options_of(page).first).to_be_visible()
    no_serious_findings(page)
    page.keyboard.type("sweep")
    expect(options_of(page).filter(has_text="sweep-")).to_have_count(3)
    expect(options_of(page)).to_have_count(3)
    expect(page.locator("#palette [aria-selected=true]")).to_contain_text("sweep-")
    first = page.evaluate(ACTIVE)
    page.keyboard.press("ArrowDown")
    second = page.evaluate(ACTIVE)
    assert first and second and first != second
    assert page.locator(f"#{second}").get_attribute("aria-selected") == "true"
    page.keyboard.press("ArrowUp")
    name = page.locator(f"#{first} b").inner_text()
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_contain_text(name)
    assert re.match(r"○ Queued · J-\d+ sweep-\d · Tessera", page.title())


@pytest.mark.slow
def test_escape_closes_it_and_the_focus_returns(signed_in):
    page = signed_in("alice")
    link = page.get_by_role("link", name="Search", exact=True)
    link.focus()
    page.keyboard.press("Control+k")
    expect(page.get_by_role("combobox", name="Search jobs")).to_be_focused()
    page.keyboard.press("Escape")
    expect(page.locator("#palette")).to_be_hidden()
    expect(link).to_be_focused()


@pytest.mark.slow
def test_what_is_not_an_option_is_searched_on_the_page(signed_in, stack):
    page = signed_in("alice")
    page.keyboard.press("/")
    page.keyboard.type("nothing-like-this")
    expect(page.locator("#palette [role=status]")).to_contain_text("Nothing matches")
    page.keyboard.press("Enter")
    expect(page).to_have_url(f"{stack.url}/search/?q=nothing-like-this")
    expect(page.get_by_role("heading", level=1)).to_contain_text("Nothing matches")


@pytest.mark.slow
def test_keys_of_one_letter_are_listed_and_can_be_switched_off(signed_in, stack):
    page = signed_in("alice")
    page.keyboard.press("?")
    keys = page.get_by_role("dialog", name="Keyboard shortcuts")
    expect(keys).to_be_visible()
    no_serious_findings(page)
    page.keyboard.press("Escape")
    page.keyboard.press("n")
    expect(page).to_have_url(f"{stack.url}/request/")
    # A letter in a field is a letter.
    field = page.get_by_label("Name", exact=True)
    field.fill("")
    page.keyboard.type("n?/")
    expect(field).to_have_value("n?/")
    expect(page.locator("dialog[open]")).to_have_count(0)
    page.goto(f"{stack.url}/search/?q=x")
    page.get_by_label("Single-letter shortcuts").first.uncheck()
    page.get_by_role("heading", level=1).click()
    page.keyboard.press("n")
    page.keyboard.press("?")
    expect(page.locator("dialog[open]")).to_have_count(0)
    expect(page).to_have_url(f"{stack.url}/search/?q=x")
    # With another key it still opens.
    page.keyboard.press("Control+k")
    expect(page.locator("#palette")).to_be_visible()


@pytest.mark.slow
def test_without_scripts_the_search_is_a_page(signed_in, stack):
    page = signed_in("alice", java_script_enabled=False)
    page.get_by_role("link", name="Search", exact=True).click()
    page.get_by_role("searchbox").fill("sweep-1")
    page.get_by_role("button", name="Search").click()
    page.get_by_role("link", name="sweep-1", exact=True).click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("sweep-1")


@pytest.mark.slow
def test_a_project_is_chosen_in_the_bar_by_keyboard(signed_in, stack):
    page = signed_in("alice")
    menu = page.locator("[data-switch] summary")
    menu.focus()
    page.keyboard.press("Enter")
    speech = page.get_by_role("button", name="speech", exact=True)
    expect(speech).to_be_visible()
    no_serious_findings(page)
    page.keyboard.press("Escape")
    expect(speech).to_be_hidden()
    expect(menu).to_be_focused()
    page.keyboard.press("Enter")
    for _ in range(2):
        page.keyboard.press("Tab")
    expect(speech).to_be_focused()
    page.keyboard.press("Enter")
    expect(page).to_have_url(f"{stack.url}/queue/?whose=project-speech")
    expect(page.get_by_role("heading", name="Nothing matches")).to_be_visible()
    no_serious_findings(page)
    page.get_by_role("link", name="Clear filters").click()
    expect(page.get_by_role("link", name="sweep-0", exact=True)).to_be_visible()


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_new_states_serve_everybody_and_fit_a_phone(signed_in, stack, scheme):
    page = signed_in("alice", color_scheme=scheme)
    states = ("/search/", "/search/?q=sweep", "/search/?q=nothing", "/queue/?others=each")
    for path in (*states, "/jobs/J-1/", "/jobs/J-5/"):
        page.goto(f"{stack.url}{path}")
        no_serious_findings(page)
    page.set_viewport_size(NARROW)
    for path in ("/search/?q=sweep", "/queue/", "/jobs/J-1/"):
        page.goto(f"{stack.url}{path}")
        width = page.evaluate("document.documentElement.scrollWidth")
        assert width <= NARROW["width"], f"{path} is {width} wide"
    page.keyboard.press("/")
    expect(options_of(page).first).to_be_visible()
    no_serious_findings(page)
