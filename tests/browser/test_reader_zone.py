"""One clock a page: in three time zones and two languages, with and without a script, and when
nothing is heard any more."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Page, Route, expect

from tests.browser.seeded_web import WIDE, Web, signed_in

pytestmark = [pytest.mark.browser, pytest.mark.slow]
SHANGHAI, NEW_YORK = "Asia/Shanghai", "America/New_York"
LOOKS = [
    (SHANGHAI, "zh-CN", "未实时更新，最后收到于", "实时"),
    (NEW_YORK, "en-US", "Not live: last heard", "Live"),
    ("UTC", "en-US", "Not live: last heard", "Live"),
]
PAGES = ("web:home", "web:queue", "web:jobs", "web:job", "web:job_events", "web:usage")
# Of each time on the page: what it shows, and what the browser's own clock says of its moment.
READ_TIMES = """() => [...document.querySelectorAll('time[datetime]')].map((time) => ({
  shown: time.textContent, title: time.title,
  clock: new Date(time.dateTime).toLocaleTimeString('en-GB'),
  day: new Intl.DateTimeFormat('sv-SE', {dateStyle: 'short'}).format(new Date(time.dateTime)),
}))"""
ONE_BEAT = "retry: 1000\n\nevent: beat\ndata:\n\n"
CLOCK = re.compile(r"\d\d:\d\d(:\d\d)?")


@pytest.fixture(scope="module")
def web(seeded_pages) -> Web:
    return seeded_pages


def times_of(page: Page) -> list[dict[str, str]]:
    return page.evaluate(READ_TIMES)


@pytest.mark.parametrize(("zone", "locale", "_stale", "live"), LOOKS, ids=lambda value: value)
def test_every_time_is_that_of_the_browsers_clock(browser, web, zone, locale, _stale, live):
    page = signed_in(browser, web, "alice", viewport=WIDE, timezone_id=zone, locale=locale)
    seen = 0
    for name in PAGES:
        page.goto(f"{web.url}{web.pages[name][1]}")
        expect(page.locator("html")).to_have_attribute("data-zone", zone)
        expect(page.locator("footer")).to_contain_text(zone)
        marker = page.locator(".live")
        if marker.count():
            expect(marker).to_have_class(re.compile(r"\bon\b"))
            expect(marker).to_contain_text(live)
        for time in times_of(page):
            if shown := CLOCK.search(time["shown"]):
                assert time["clock"].startswith(shown[0]), (name, time)
                seen += 1
            assert time["title"].startswith(f"{time['day']} {time['clock']} "), (name, time)
            assert zone in time["title"], (name, time)
    assert seen > 60
    page.context.close()


def test_the_accounts_zone_is_above_the_browsers(browser, web):
    page = signed_in(browser, web, "alice", viewport=WIDE, timezone_id=SHANGHAI)
    page.goto(f"{web.url}/account/")
    page.get_by_label("Time zone", exact=True).select_option(NEW_YORK)
    page.locator("#time-zone").get_by_role("button", name="Save").click()
    expect(page.get_by_text("Time zone saved")).to_be_visible()
    page.goto(f"{web.url}/queue/")
    expect(page.locator("html")).to_have_attribute("data-zone", NEW_YORK)
    marker = page.locator(".live")
    expect(marker).to_have_class(re.compile(r"\bon\b"))
    expect(marker.locator("time")).to_have_attribute("title", re.compile(NEW_YORK))
    page.goto(f"{web.url}/account/")
    page.get_by_label("Time zone", exact=True).select_option("")
    page.locator("#time-zone").get_by_role("button", name="Save").click()
    expect(page.locator("html")).to_have_attribute("data-zone", SHANGHAI)
    page.context.close()


def test_without_a_script_the_page_says_which_zone_and_as_of_when(browser, web):
    page = signed_in(
        browser, web, "alice", viewport=WIDE, timezone_id=SHANGHAI, java_script_enabled=False
    )
    page.goto(f"{web.url}/queue/")
    expect(page.locator("footer")).to_contain_text("Times are in UTC")
    expect(page.locator(".live")).to_contain_text(re.compile(r"As of \d\d:\d\d:\d\d"))
    expect(page.locator(".live")).not_to_have_class(re.compile(r"\bon\b"))
    page.context.close()


@pytest.mark.parametrize(("zone", "locale", "stale", "live"), LOOKS[:2], ids=lambda value: value)
def test_a_page_that_hears_nothing_says_since_when_by_words(
    browser, web, zone, locale, stale, live
):
    """Defect 14: it stood green until 20 s, and then turned amber and still said "Live"."""
    page = signed_in(browser, web, "alice", viewport=WIDE, timezone_id=zone, locale=locale)
    page.clock.install()
    portal = {"is_up": True}

    def stream(route: Route) -> None:
        """Each connection says one beat and ends; the browser comes back in a second."""
        if portal["is_up"]:
            route.fulfill(body=ONE_BEAT, content_type="text/event-stream")
        else:
            route.abort()

    page.route("**/queue/stream*", stream)
    page.goto(f"{web.url}{web.pages['web:queue'][1]}")
    marker = page.locator(".live")
    expect(marker).to_have_class("live on")
    portal["is_up"] = False
    page.clock.run_for(16_000)
    expect(marker).to_have_class("live stale")
    expect(marker).to_contain_text(stale)
    expect(marker).not_to_contain_text(re.compile(f"^{live}"))
    heard = marker.locator("time")
    assert CLOCK.fullmatch(heard.inner_text())
    assert zone in heard.get_attribute("title")
    portal["is_up"] = True
    expect(marker).to_have_class("live on")
    expect(marker).to_contain_text(live)
    expect(marker).not_to_contain_text(stale)
    page.context.close()
