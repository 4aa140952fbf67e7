"""Home and Usage in a real browser: work is extended, its hours are counted, nothing breaks."""

from __future__ import annotations

import csv
import re
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.browser.people import NARROW, listen, sign_in, switch_language
from tests.services.stack import Stack

pytestmark = [pytest.mark.browser, pytest.mark.slow]
WAITS = ["sh", "-c", 'trap "exit 0" TERM; while true; do sleep 0.1; done']


@pytest.fixture(scope="module")
def stack(tmp_path_factory):
    var: Path = tmp_path_factory.mktemp("usage")
    with Stack(var=var, nodes=("node-a",)) as stack:
        yield stack


@pytest.fixture
def page(browser, stack):
    """A fresh browser in which alice has signed in; its console must stay silent."""
    complaints: list[str] = []
    context = browser.new_context()
    page = listen(context.new_page(), complaints)
    sign_in(page, stack, "alice", "/usage/")
    yield page
    context.close()
    assert complaints == []


def test_an_empty_home_leads_to_a_filled_form_in_one_click(page: Page, stack):
    page.goto(stack.url)
    page.get_by_role("link", name="Fill in the request: Two replicas that start together").click()
    expect(page.get_by_label("Replicas")).to_have_value("2")
    expect(page.locator("[data-part=preview]")).to_contain_text("Can start now")


def test_running_work_is_extended_on_home_and_counted_on_usage(page: Page, stack, tmp_path):
    job = stack.submit(WAITS, name="counted")
    stack.until_status(job, "running")
    page.goto(stack.url)
    expect(page.get_by_role("heading", level=1)).to_have_text("1 job running")
    page.get_by_role("button", name="Extend counted by 1 h").click()
    expect(page.get_by_role("status").filter(has_text="counted has 1 h more")).to_be_visible()
    assert stack.job(job)["status"] == "running"

    page.get_by_role("link", name="Usage", exact=True).first.click()
    _read_again_until(page, "You used .* GPU-hours")
    expect(page.get_by_role("link", name="counted")).to_be_visible()
    expect(page.locator("svg.bars rect").last).to_be_attached()
    with page.expect_download() as download:
        page.get_by_role("link", name="CSV").click()
    file = tmp_path / "usage.csv"
    download.value.save_as(file)
    with file.open(newline="") as lines:
        (line,) = csv.DictReader(lines)
    assert (line["job"], line["user"], line["profile"]) == (job, "alice", "1g.18gb")
    page.get_by_label("Scope").select_option("project:vision")
    page.get_by_role("button", name="Show").click()
    expect(page.get_by_role("heading", level=1)).to_have_text(re.compile("vision used"))
    stack.call("POST", f"/jobs/{job}/cancel")


def _read_again_until(page: Page, title: str) -> None:
    """Its first second counts when it is whole; a page does not change by itself."""
    for _ in range(100):
        if re.match(title, page.get_by_role("heading", level=1).inner_text()):
            return
        page.reload()
    raise AssertionError(f"{title!r} never became the title")


def test_both_pages_fit_a_phone_in_either_language(page: Page, stack):
    page.set_viewport_size(NARROW)
    for language in ("en", "zh-Hans"):
        for path in ("/", "/usage/?of=project:vision&period=30-days"):
            page.goto(f"{stack.url}{path}")
            assert page.locator("html").get_attribute("lang") == language
            width = page.evaluate("document.documentElement.scrollWidth")
            assert width <= NARROW["width"], f"{path} is {width} wide in {language}"
        switch_language(page)
