"""With JavaScript switched off: sign in, ask, list, filter, cancel and approve."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Page, expect

from tests.browser.people import people

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def stack(running_stack):
    return running_stack


@pytest.fixture
def plain(browser, stack):
    # A form that comes back with what is wrong says so with its status.
    with people(browser, stack, "/jobs/", lambda said: "status of 400" in said) as open_as:
        yield lambda who: open_as(who, java_script_enabled=False)


def ask(page: Page, name: str, **fields: str) -> str:
    """The new job's label."""
    page.get_by_role("link", name="New request").first.click()
    page.get_by_label("Name", exact=True).fill(name)
    page.get_by_label("Command", exact=True).fill("sleep 300")
    page.locator("input[value='memory:16GiB']").check()
    for label, value in fields.items():
        page.get_by_label(label.replace("_", " "), exact=True).fill(value)
    page.get_by_role("button", name=re.compile("^Submit")).first.click()
    expect(page.get_by_role("heading", level=1)).to_contain_text(name)
    return page.url.rstrip("/").rpartition("/")[2]


def test_a_job_is_asked_for_found_in_the_list_and_cancelled(plain, stack):
    page = plain("june")
    label = ask(page, "without-scripts")
    page.get_by_role("link", name="Jobs", exact=True).first.click()
    page.get_by_role("searchbox").fill("without-scr")
    page.get_by_role("button", name="Filter").click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("1 ")
    page.get_by_role("link", name="without-scripts").click()
    page.get_by_role("link", name="Cancel job").click()
    page.get_by_role("button", name="Cancel job").click()
    expect(page.get_by_role("status").first).to_contain_text(label)
    stack.until_status(label, "cancelled")
    page.reload()
    expect(page.get_by_role("heading", level=1)).to_contain_text("Cancelled")


@pytest.mark.slow
def test_what_is_wrong_with_a_request_stands_beside_what_was_typed(plain):
    page = plain("june")
    page.get_by_role("link", name="New request").first.click()
    page.get_by_label("Name", exact=True).fill("kept")
    page.get_by_label("Replicas").fill("none")
    page.get_by_role("button", name=re.compile("^Submit")).first.click()
    expect(page.get_by_label("Name", exact=True)).to_have_value("kept")
    field = page.get_by_label("Replicas")
    expect(field).to_have_value("none")
    expect(field).to_have_attribute("aria-invalid", "true")
    expect(field).to_be_focused()


@pytest.mark.slow
def test_what_was_meant_is_filled_in_by_a_button(plain):
    page = plain("june")
    page.get_by_role("link", name="New request").first.click()
    page.get_by_label("Time limit", exact=True).fill("2 hourz")
    page.get_by_role("button", name=re.compile("^Submit")).first.click()
    page.get_by_role("button", name="Did you mean 2h?").first.click()
    expect(page.get_by_label("Time limit", exact=True)).to_have_value("2h")
    page.get_by_role("button", name="4 h", exact=True).click()
    expect(page.get_by_label("Time limit", exact=True)).to_have_value("4h")
    expect(page.get_by_role("heading", level=1)).to_have_text("New request")


@pytest.mark.slow
def test_a_project_admin_approves_what_waits_for_it(plain, stack):
    label = ask(plain("june"), "long-one", Time_limit="13h")
    assert stack.job(label)["status"] == "awaiting_approval"
    page = plain("ada")
    page.get_by_role("link", name="Projects", exact=True).click()
    page.get_by_role("link", name="Approvals", exact=True).click()
    page.get_by_role("button", name=f"Approve {label}").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Nothing waits for your approval")
    stack.until_status(label, "queued", "placed", "preparing", "running")
    page.goto(f"{stack.url}/jobs/{label}/cancel")
    page.get_by_role("button", name="Cancel job").click()
    stack.until_status(label, "cancelled")
