"""Pages that refuse, in two languages at once: axe-core finds nothing serious, nothing scrolls."""

from __future__ import annotations

import pytest

from portal.request_bodies import MAX_FORM_BYTES
from tests.browser.axe import WCAG, script, serious
from tests.browser.people import NARROW
from tests.browser.seeded_web import WIDE, signed_in

pytestmark = [pytest.mark.browser, pytest.mark.timeout(300)]


def refusal(page, web, name):
    """(status, text) of one."""
    if name == "413":
        answer = page.request.post(f"{web.url}/jobs/", data=b"x" * (MAX_FORM_BYTES + 1))
    else:
        answer = page.request.get(f"{web.url}/nowhere/")
    return answer.status, answer.text()


@pytest.mark.slow
@pytest.mark.parametrize("name", ["404", "413"])
def test_a_refusal_is_accessible_in_both_themes_and_widths(browser, seeded_pages, name):
    page = signed_in(browser, seeded_pages, "alice", reduced_motion="reduce")
    status, text = refusal(page, seeded_pages, name)
    assert status == int(name)
    # A page of the same host, so that its style sheets are loaded.
    address = f"{seeded_pages.url}/refusal"
    page.route(address, lambda route: route.fulfill(body=text, content_type="text/html"))
    page.goto(address, wait_until="load")
    found = []
    for theme in ("light", "dark"):
        for size in (WIDE, NARROW):
            page.emulate_media(color_scheme=theme)
            page.set_viewport_size(size)
            found += serious(page, script(), WCAG)
            width = page.evaluate("document.documentElement.scrollWidth")
            assert width <= size["width"], (theme, size)
    page.context.close()
    assert not found, "\n".join(found)
