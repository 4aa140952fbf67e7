"""axe-core finds nothing serious on any page: both themes, wide and narrow, English and Chinese."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Page

from tests.browser.axe import COLOURS, WCAG, script, serious
from tests.browser.people import NARROW
from tests.browser.seeded_web import WIDE, signed_in

pytestmark = [pytest.mark.browser, pytest.mark.timeout(900)]
LANGUAGES = {"en": "en", "zh-hans": "zh-Hans"}
# A page is loaded once in each language, and there looked at in these ways: size, theme, and what
# of it the way before has not shown.
LOOKS = {
    "en": ((WIDE, "light", WCAG), (WIDE, "dark", COLOURS), (NARROW, "dark", COLOURS)),
    "zh-hans": ((NARROW, "light", WCAG),),
}
# Swagger's own page: its markup is not ours.
NOT_OURS = {"api:docs"}


@pytest.fixture(scope="module")
def web(seeded_pages):
    return seeded_pages


def wrong(page: Page, address: str, axe: str) -> Iterator[str]:
    """What is wrong with a page, in every look of it."""
    for language, looks in LOOKS.items():
        page.set_extra_http_headers({"Accept-Language": language})
        answer = page.goto(address, wait_until="load")
        assert answer is not None
        if not answer.ok:
            yield f"answered {answer.status}"
        if page.locator("html").get_attribute("lang") != LANGUAGES[language]:
            yield f"is not in {language}"
        for size, theme, rules in looks:
            page.set_viewport_size(size)
            page.emulate_media(color_scheme=theme)
            if (width := page.evaluate("document.documentElement.scrollWidth")) > size["width"]:
                yield f"{language}: is {width} wide"
            where = f"{language} {size['width']} {theme}"
            yield from (f"{where}: {said}" for said in serious(page, axe, rules))


@pytest.mark.slow
@pytest.mark.parametrize(
    "who", ["", "alice", *(pytest.param(who, marks=pytest.mark.soak) for who in ("paul", "admin"))]
)
def test_no_page_has_a_serious_finding_in_any_look_nor_scrolls_sideways(browser, web, who):
    """As a visitor, a member, a project's admin and the platform's."""
    axe, found = script(), []
    page = signed_in(browser, web, who, reduced_motion="reduce")
    for name, address in web.seen_by(who).items():
        if name not in NOT_OURS:
            found += [f"{name} {said}" for said in wrong(page, f"{web.url}{address}", axe)]
    page.context.close()
    assert not found, "\n".join(found)


def test_axe_finds_what_is_wrong(browser):
    page = browser.new_context(bypass_csp=True).new_page()
    page.set_content("<html lang='en'><title>t</title><main><h1>t</h1><img src='x'></main>")
    assert [said for said in serious(page, script()) if said.startswith("image-alt")]
    page.context.close()
