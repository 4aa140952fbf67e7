"""axe-core finds nothing serious on any page: both themes, wide and narrow, English and Chinese."""

from __future__ import annotations

import pytest
from playwright.sync_api import Browser, Page

from tests.browser.axe import script, serious
from tests.browser.seeded_web import PASSWORD, Web, seeded_web

pytestmark = [pytest.mark.browser, pytest.mark.timeout(900)]
WIDTHS = {"wide": 1280, "narrow": 390}
LANGUAGES = {"en": "en", "zh-hans": "zh-Hans"}
# Swagger's own page: its markup is not ours.
NOT_OURS = {"api:docs"}


@pytest.fixture(scope="module")
def web(tmp_path_factory):
    var = tmp_path_factory.mktemp("every-page")
    with seeded_web(var, jobs=120, nodes=10, users=12, projects=3) as web:
        yield web


def signed_in(browser: Browser, web: Web, who: str, **options) -> Page:
    """A page of a fresh browser; `who` empty: of nobody."""
    page = browser.new_context(bypass_csp=True, **options).new_page()
    page.set_default_timeout(60_000)
    if who:
        page.goto(f"{web.url}/sign-in/")
        page.locator("input[type=password]").fill(PASSWORD)
        page.locator("input[name=login], input[name=username]").first.fill(who)
        page.locator("input[type=password]").press("Enter")
        page.wait_for_url(f"{web.url}/")
    return page


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("width", WIDTHS)
def test_no_page_has_a_serious_finding_in_either_theme_nor_scrolls_sideways(
    browser, web, width, language
):
    axe, found = script(), {}
    size = {"width": WIDTHS[width], "height": 900}
    people = sorted({who for who, _ in web.pages.values()})
    for who in people:
        page = signed_in(
            browser,
            web,
            who,
            viewport=size,
            reduced_motion="reduce",
            extra_http_headers={"Accept-Language": language},
        )
        for name, (reader, path) in web.pages.items():
            if reader != who or name in NOT_OURS:
                continue
            page.emulate_media(color_scheme="light")
            answer = page.goto(f"{web.url}{path}", wait_until="load")
            assert answer is not None
            problems = [] if answer.ok else [f"answered {answer.status}"]
            assert page.locator("html").get_attribute("lang") == LANGUAGES[language], name
            wide = page.evaluate("document.documentElement.scrollWidth")
            if wide > WIDTHS[width]:
                problems.append(f"is {wide} wide")
            problems += [f"light: {said}" for said in serious(page, axe)]
            page.emulate_media(color_scheme="dark")
            problems += [f"dark: {said}" for said in serious(page, axe)]
            if problems:
                found[name] = problems
        page.context.close()
    assert not found, "\n".join(f"{name}: {said}" for name, all_ in found.items() for said in all_)


def test_axe_finds_what_is_wrong(browser):
    page = browser.new_context(bypass_csp=True).new_page()
    page.set_content("<html lang='en'><title>t</title><main><h1>t</h1><img src='x'></main>")
    assert [said for said in serious(page, script()) if said.startswith("image-alt")]
    page.context.close()
