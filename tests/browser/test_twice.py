"""A request that somebody impatient sends twice, by two fast clicks or by Back, is one job."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, expect

from tests.browser.people import people

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def stack(running_stack):
    return running_stack


@pytest.fixture
def page(browser, stack):
    # What was already submitted and is sent again with a change comes back with a sentence.
    with people(browser, stack, "/request/", lambda said: "status of 4" in said) as open_as:
        yield open_as("theo")


def fill(page: Page, name: str) -> None:
    page.get_by_label("Name", exact=True).fill(name)
    page.get_by_label("Command", exact=True).fill("true")
    page.locator("input[value='memory:16GiB']").check()


def jobs(stack, name: str) -> list[str]:
    return [job["id"] for job in stack.call("GET", f"/jobs?name={name}")["results"]]


@pytest.mark.slow
def test_two_fast_clicks_make_one_job(page, stack):
    fill(page, "impatient")
    page.get_by_role("button", name="Submit and start").first.dblclick()
    expect(page.get_by_role("heading", level=1)).to_contain_text("impatient")
    assert len(jobs(stack, "impatient")) == 1
    stack.until_status(jobs(stack, "impatient")[0], "succeeded")


@pytest.mark.slow
def test_back_and_the_same_again_leads_to_the_job_that_is_there(page, stack):
    fill(page, "went-back")
    page.get_by_role("button", name="Submit and start").first.click()
    title = page.get_by_role("heading", level=1)
    expect(title).to_contain_text("went-back")
    there = page.url
    page.go_back()
    expect(title).to_have_text("New request")
    page.get_by_role("button", name="Submit and start").first.click()
    expect(page).to_have_url(there)
    assert len(jobs(stack, "went-back")) == 1

    # Changed, it is another request: the page says so, and the next press makes another job.
    page.go_back()
    page.get_by_label("Name", exact=True).fill("went-back-2")
    page.get_by_role("button", name="Submit and start").first.click()
    expect(page.get_by_text("was already submitted")).to_be_visible()
    page.get_by_role("button", name="Submit and start").first.click()
    expect(title).to_contain_text("went-back-2")
    assert len(jobs(stack, "went-back-2")) == 1
    for name in ("went-back", "went-back-2"):
        stack.until_status(jobs(stack, name)[0], "succeeded")
