"""Signing in and the account in a real browser: passkeys, codes, tokens, on any screen."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from allauth.mfa.totp.internal.auth import format_hotp_value, hotp_value
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page, expect

from tests.browser.people import PATIENCE, switch_language
from tests.services.stack import Stack

pytestmark = [pytest.mark.browser, pytest.mark.slow]
NARROW = {"width": 390, "height": 844}
DEVICE = {
    "protocol": "ctap2",
    "transport": "internal",
    "hasResidentKey": True,
    "hasUserVerification": True,
    "isUserVerified": True,
    "automaticPresenceSimulation": True,
}


class Web(Stack):
    """The web process alone: nothing here runs a job."""

    def __enter__(self) -> Web:
        self.nodes = ()
        self.seed("tests.services.seed")
        self.start_web()
        return self

    @property
    def address(self) -> str:
        """Passkeys belong to a name; a number has none."""
        return f"http://localhost:{self.port}"


@pytest.fixture(scope="module")
def web(tmp_path_factory):
    var: Path = tmp_path_factory.mktemp("account")
    with Web(var=var) as web:
        yield web


@pytest.fixture
def page(browser, web):
    """Alice's browser, which complains of nothing."""
    context = browser.new_context()
    page, complaints = context.new_page(), []
    page.set_default_timeout(PATIENCE)
    page.on("console", lambda m: complaints.append(m.text) if m.type == "error" else None)
    page.on("pageerror", lambda error: complaints.append(str(error)))
    sign_in(page, web)
    yield page
    context.close()
    assert complaints == []


def sign_in(page: Page, web: Web) -> None:
    page.goto(f"{web.address}/sign-in/?next=/account/")
    page.get_by_label("User name").fill("alice")
    page.get_by_label("Password").fill(web.seeded["password"])
    page.get_by_role("button", name="Sign in", exact=True).click()


def sign_out(page: Page) -> None:
    page.get_by_role("button", name="Sign out", exact=True).click()
    expect(page.get_by_role("heading", name="Sign in")).to_be_visible()


def confirm(page: Page, web: Web) -> None:
    page.get_by_label("Password").fill(web.seeded["password"])
    page.get_by_role("button", name="Confirm").click()


def serious(page: Page) -> list[str]:
    found = Axe().run(page).response["violations"]
    return [each["id"] for each in found if each["impact"] in ("serious", "critical")]


def test_a_passkey_is_added_signs_in_alone_and_is_removed(page, web):
    session = page.context.new_cdp_session(page)
    session.send("WebAuthn.enable")
    session.send("WebAuthn.addVirtualAuthenticator", {"options": DEVICE})
    page.get_by_role("link", name="Add a passkey").click()
    confirm(page, web)
    page.get_by_label("Name", exact=True).fill("blue laptop")
    page.get_by_role("button", name="Add a passkey").click()
    expect(page.get_by_role("heading", name="10 of 10 recovery codes left")).to_be_visible()
    page.get_by_role("link", name="I have saved them").click()
    expect(page.get_by_text("Two-factor authentication is on")).to_be_visible()

    sign_out(page)
    page.get_by_role("button", name="Sign in with a passkey").click()
    expect(page.get_by_role("link", name="Account of alice")).to_be_visible()

    sign_out(page)
    sign_in(page, web)
    page.get_by_role("button", name="Use a passkey").click()
    expect(page.get_by_text("blue laptop")).to_be_visible()
    page.get_by_role("link", name="Remove blue laptop").click()
    confirm(page, web)
    page.get_by_role("button", name="Remove it").click()
    expect(page.get_by_text("Password only")).to_be_visible()


def test_an_app_is_added_by_its_key_and_taken_away(page, web):
    page.get_by_role("link", name="Add an app").click()
    confirm(page, web)
    expect(page.get_by_alt_text("QR code of the key below")).to_be_visible()
    assert serious(page) == []
    key = page.locator("#key").inner_text()
    minutes = page.evaluate("Math.floor(Date.now() / 30000)")
    page.get_by_label("Code from the app").fill(format_hotp_value(hotp_value(key, minutes)))
    page.get_by_role("button", name="Turn on").click()
    code = page.locator("#codes").inner_text().split()[0]
    sign_out(page)
    sign_in(page, web)
    assert serious(page) == []
    page.get_by_label("Code from your app").fill(code)
    page.get_by_role("button", name="Sign in", exact=True).click()
    expect(page.get_by_text("9 left")).to_be_visible()
    page.get_by_role("link", name="Remove", exact=True).click()
    confirm(page, web)
    page.get_by_role("button", name="Remove it").click()
    expect(page.get_by_text("Password only")).to_be_visible()


def test_a_token_is_copied_from_the_page_that_made_it(page, web):
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.get_by_label("Name").fill("laptop")
    page.get_by_role("button", name="Create token").click()
    page.get_by_role("button", name="Copy").click()
    text = page.evaluate("navigator.clipboard.readText()")
    assert re.fullmatch(r"tsr_\w{60,}", text)
    answer = web.http.get(f"{web.url}/api/v1/jobs", headers={"Authorization": f"Bearer {text}"})
    assert answer.status_code == 200
    page.get_by_role("link", name="I have copied it").click()
    page.get_by_role("link", name="Revoke laptop").click()
    page.get_by_role("button", name="Revoke token").click()
    expect(page.get_by_text("Revoked.")).to_be_visible()
    again = web.http.get(f"{web.url}/api/v1/jobs", headers={"Authorization": f"Bearer {text}"})
    assert again.status_code == 401


def test_the_theme_is_chosen_and_kept(page, web):
    page.get_by_text("Dark", exact=True).click()
    page.reload()
    assert page.locator("html").get_attribute("data-theme") == "dark"
    page.get_by_text("System").click()
    page.reload()
    assert page.locator("html").get_attribute("data-theme") is None


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_pages_are_accessible_and_fit_a_phone_in_both_languages(page, web, scheme):
    page.set_viewport_size(NARROW)
    page.emulate_media(color_scheme=scheme)
    for language in ("en", "zh-Hans"):
        for path in ("/account/", "/account/password/", "/account/passkeys/add/"):
            page.goto(f"{web.address}{path}")
            assert page.locator("html").get_attribute("lang") == language
            width = page.evaluate("document.documentElement.scrollWidth")
            assert width <= NARROW["width"], f"{path} is {width} wide in {language}"
            assert serious(page) == [], path
        switch_language(page)


def test_without_javascript_one_signs_in_and_no_passkey_is_offered(browser, web):
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(f"{web.address}/sign-in/")
    expect(page.get_by_role("button", name="Sign in with a passkey")).to_be_hidden()
    sign_in(page, web)
    page.get_by_label("Name").fill("plain")
    page.get_by_role("button", name="Create token").click()
    expect(page.get_by_role("heading", name="Copy your token now")).to_be_visible()
    context.close()
