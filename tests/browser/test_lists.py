"""Three people with a browser on the Jobs and the Queue page: filter, end several, hold, read."""

from __future__ import annotations

import re

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page, expect

from tests.browser.people import NARROW, people, seeded_stack

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def stack(tmp_path_factory):
    with seeded_stack(tmp_path_factory.mktemp("lists"), "tests.services.seed_lists") as stack:
        yield stack


@pytest.fixture
def signed_in(browser, stack):
    with people(browser, stack, "/queue/") as open_as:
        yield open_as


def line(page: Page, name: str):
    return page.get_by_role("row").filter(has=page.get_by_role("rowheader", name=name))


@pytest.mark.slow
def test_a_member_reads_the_queue_without_the_names_of_others(signed_in):
    page = signed_in("alice")
    expect(page.get_by_role("heading", level=1)).to_contain_text("jobs are waiting; your first")
    queue = page.locator("[data-part=queue]")
    expect(queue).to_contain_text("a job of another project")
    expect(queue).not_to_contain_text("zebra")
    expect(queue).to_contain_text("not yet")
    expect(line(page, "sweep-0")).to_contain_text("at the latest: a place is reserved for it")
    page.get_by_text("How the queue is ordered").click()
    expect(page.get_by_text("first come, first served")).to_be_visible()
    page.get_by_role("link", name="Mine", exact=True).click()
    expect(queue).not_to_contain_text("a job of another project")


@pytest.mark.slow
def test_a_platform_admin_reads_whose_every_job_is(signed_in):
    page = signed_in("root")
    queue = page.locator("[data-part=queue]")
    expect(queue).to_contain_text("eve · secret")
    expect(line(page, "long-run").get_by_role("link", name="Decide")).to_be_visible()


@pytest.mark.slow
def test_a_project_admin_releases_and_holds_by_keyboard(signed_in):
    page = signed_in("ada")
    expect(line(page, "ada-late")).to_contain_text("data is not there yet")
    page.get_by_role("button", name="Release ada-late").focus()
    page.keyboard.press("Enter")
    hold = page.get_by_role("link", name="Hold ada-late")
    expect(hold).to_be_visible()
    hold.focus()
    page.keyboard.press("Enter")
    page.get_by_label("Why").fill("later")
    page.keyboard.press("Enter")
    expect(page.get_by_role("button", name="Release ada-late")).to_be_visible()
    expect(page.get_by_role("link", name="Hold zebra")).to_have_count(0)


@pytest.mark.slow
def test_wrong_filters_say_what_to_do_and_keep_what_was_typed(signed_in, stack):
    page = signed_in("alice")
    page.goto(f"{stack.url}/jobs/")
    page.get_by_text("More filters").click()
    page.get_by_label("Submitted on or after").fill("next tuesday")
    page.keyboard.press("Enter")
    field = page.get_by_label("Submitted on or after")
    expect(field).to_have_value("next tuesday")
    expect(field).to_have_attribute("aria-invalid", "true")
    expect(page.locator("#submitted_after-error")).to_contain_text("Enter a day such as")
    page.get_by_role("link", name="Clear filters").first.click()
    expect(page.get_by_role("link", name="train-vit")).to_be_visible()


@pytest.mark.slow
def test_several_jobs_are_ended_by_keyboard_and_a_page_beside_it_hears_of_it(signed_in, stack):
    watching = signed_in("ada")
    watching.goto(f"{stack.url}/jobs/")
    page = signed_in("alice")
    page.goto(f"{stack.url}/jobs/?name=sweep")
    box = page.get_by_label(re.compile(r"Select sweep-1 "))
    box.focus()
    page.keyboard.press("Space")
    expect(box).to_be_checked()
    page.get_by_label(re.compile(r"Select sweep-2 ")).focus()
    page.keyboard.press("Space")
    page.get_by_role("button", name="Cancel selected jobs").focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_have_text("Cancel these 2 jobs?")
    expect(page.get_by_role("row").filter(has_text="sweep-1")).to_contain_text("gives up position")
    page.get_by_role("button", name="Cancel 2 jobs").focus()
    page.keyboard.press("Enter")
    expect(page).to_have_url(f"{stack.url}/jobs/?name=sweep")
    expect(page.get_by_text("2 jobs cancelled")).to_be_visible()
    expect(line(page, "sweep-1")).to_contain_text("Cancelled")
    expect(line(page, "sweep-0")).to_contain_text("Queued")
    expect(line(watching, "sweep-2")).to_contain_text("Cancelled")


@pytest.mark.slow
def test_without_javascript_a_running_job_is_ended_after_saying_what_is_lost(signed_in, stack):
    page = signed_in("ada", java_script_enabled=False)
    page.goto(f"{stack.url}/jobs/?status=running")
    page.get_by_label(re.compile("Select train-vit")).check()
    page.get_by_role("button", name="Cancel selected jobs").click()
    row = page.get_by_role("row").filter(has_text="train-vit")
    expect(row).to_contain_text("alice · vision")
    expect(row).to_contain_text("what it holds in memory is lost")
    page.get_by_role("link", name="Keep jobs").click()
    expect(page).to_have_url(f"{stack.url}/jobs/?status=running")
    expect(line(page, "train-vit")).to_contain_text("Running")


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_both_pages_serve_everybody_and_fit_a_phone(signed_in, stack, scheme):
    page = signed_in("alice", color_scheme=scheme)
    paths = ("/queue/", "/jobs/", "/jobs/?kind=x&status=running", "/jobs/cancel?job=J-1&job=J-2")
    for path in paths:
        page.goto(f"{stack.url}{path}")
        found = Axe().run(page)
        bad = [v for v in found.response["violations"] if v["impact"] in ("serious", "critical")]
        assert not bad, (path, [(v["id"], [n["html"] for n in v["nodes"]]) for v in bad])
    page.set_viewport_size(NARROW)
    for path in paths:
        page.goto(f"{stack.url}{path}")
        width = page.evaluate("document.documentElement.scrollWidth")
        assert width <= NARROW["width"], f"{path} is {width} wide"
