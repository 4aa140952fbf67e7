"""People with a browser on the ranks of a gang: logs side by side, live, and on a phone."""

from __future__ import annotations

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Locator, Page, expect

from tests.browser.people import NARROW, people, seeded_stack, switch_language
from tests.services.stack import Stack

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def stack(tmp_path_factory):
    with seeded_stack(tmp_path_factory.mktemp("ranks"), "tests.services.seed_logs") as stack:
        yield stack


@pytest.fixture
def signed_in(browser, stack):
    with people(browser, stack, "/jobs/") as open_as:
        yield open_as


def open_ranks(page: Page, stack: Stack) -> None:
    page.goto(f"{stack.url}/jobs/{stack.seeded['talks']}/logs")
    page.get_by_role("navigation", name="Sections of the job").get_by_role(
        "link", name="Ranks", exact=True
    ).click()


def lines_of(page: Page, rank: int) -> Locator:
    return page.get_by_role("log", name=f"Log of rank {rank}").get_by_role("listitem")


def write(stack: Stack, text: str, rank: int) -> None:
    stack.manage_program("tests.services.seed_logs", "write", str(rank), text)


@pytest.mark.slow
def test_each_line_comes_to_the_panel_of_its_rank(signed_in, stack):
    page = signed_in("alice")
    open_ranks(page, stack)
    expect(lines_of(page, 0).last).to_contain_text("click me")
    expect(page.locator("article img, article script")).to_have_count(0)
    before = lines_of(page, 0).count()
    write(stack, "to one\\n", rank=1)
    expect(lines_of(page, 1).last).to_contain_text("to one")
    assert lines_of(page, 0).count() == before
    write(stack, "to zero\\n", rank=0)
    expect(lines_of(page, 0).last).to_contain_text("to zero")
    expect(page.get_by_role("article", name="Rank 1")).to_contain_text("active")
    # A panel is reached and scrolled by the keyboard.
    page.get_by_role("log", name="Log of rank 0").focus()
    page.keyboard.press("Home")
    expect(page.get_by_role("log", name="Log of rank 0")).to_be_focused()


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_ranks_stand_on_a_phone_in_both_languages_without_findings(signed_in, stack, scheme):
    page = signed_in("alice", viewport=NARROW, color_scheme=scheme)
    for words in ("Rank 0", "Rank 0"):
        page.goto(f"{stack.url}/jobs/{stack.seeded['talks']}/ranks")
        expect(page.get_by_role("heading", name=words)).to_be_visible()
        assert page.evaluate("document.documentElement.scrollWidth") <= NARROW["width"]
        found = Axe().run(page).response["violations"]
        bad = [v["id"] for v in found if v["impact"] in ("serious", "critical")]
        assert bad == [], [v["nodes"][0]["html"] for v in found]
        switch_language(page)
