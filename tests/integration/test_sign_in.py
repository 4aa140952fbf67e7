"""Signing in: the right password alone opens, guessing is slow, and there is one way in."""

import re
from dataclasses import replace

import pytest
from allauth.account.models import EmailAddress
from allauth.core.internal import ratelimit
from django.contrib import admin
from django.core import mail
from django.core.cache import cache
from django.test import Client
from django.urls import reverse

from portal.accounts.models import User
from portal.audit.models import AuditEntry
from portal.web.account import rate_limits as limits
from tests.support.rows import a_user

pytestmark = pytest.mark.django_db
RIGHT = {"username": "olga", "password": "pw"}
WRONG = {"username": "olga", "password": "no"}


@pytest.fixture(autouse=True)
def nothing_was_tried_before():
    cache.clear()


@pytest.fixture
def olga():
    return a_user("olga", email="olga@example.org")


@pytest.fixture
def clock(monkeypatch):
    """The time that the limits go by, to be turned by hand."""

    class Clock:
        now = 1_000_000.0

        def time(self) -> float:
            """Never twice the same: a try is known by its time."""
            self.now += 0.001
            return self.now

    clock = Clock()
    monkeypatch.setattr(ratelimit.time, "time", clock.time)
    return clock


def test_the_right_password_leads_to_where_one_wanted_and_is_written_down(client, olga):
    answer = client.post("/sign-in/", RIGHT | {"next": "/cluster/"})
    assert answer.headers["Location"] == "/cluster/"
    assert client.get("/account/").status_code == 200
    line = AuditEntry.objects.get(action="sign_in")
    assert (line.actor, line.after) == ("olga", {"by": ["password"]})
    assert mail.outbox == []


def test_a_wrong_password_keeps_the_name_and_never_the_password(client, olga):
    answer = client.post("/sign-in/", WRONG | {"password": "s3cret-guess"})
    text = answer.content.decode()
    assert answer.status_code == 200 and 'role="alert"' in text
    assert 'value="olga"' in text and "s3cret-guess" not in text


def test_an_unknown_name_is_refused_in_the_same_words(client, olga):
    known = client.post("/sign-in/", WRONG).content.decode()
    unknown = client.post("/sign-in/", WRONG | {"username": "nobody"}).content.decode()
    said = [re.findall(r"<span>(Incorrect user name.*?)</span>", text) for text in (known, unknown)]
    assert said[0] == said[1] != []


def test_after_five_wrong_passwords_the_account_waits_and_says_how_long(client, olga, clock):
    for _ in range(5):
        client.post("/sign-in/", WRONG)
    clock.now += 120
    refused = client.post("/sign-in/", RIGHT)
    assert "Try again in 3\u00a0min" in refused.content.decode()
    assert client.get("/account/").status_code == 302
    clock.now += 181
    assert client.post("/sign-in/", RIGHT).status_code == 302


def test_one_accounts_wait_is_not_anothers(client, olga, clock):
    a_user("otto")
    for _ in range(6):
        client.post("/sign-in/", WRONG)
    assert client.post("/sign-in/", RIGHT | {"username": "otto"}).status_code == 302


def test_right_passwords_do_not_use_up_the_tries(client, olga, clock):
    for _ in range(8):
        assert Client().post("/sign-in/", RIGHT).status_code == 302


def test_one_address_that_tries_very_often_gets_a_page_that_says_how_long(client, olga, clock):
    for _ in range(60):
        client.post("/sign-in/", {"username": "", "password": ""})
    clock.now += 20
    answer = client.post("/sign-in/", RIGHT)
    assert (answer.status_code, answer["Retry-After"]) == (429, "40")
    assert "Try again in 40" in answer.content.decode()


def test_an_address_in_a_header_is_believed_only_from_a_proxy_that_is_told(client, settings, clock):
    def tries(n: int) -> int:
        for at in range(n):
            answer = client.post("/sign-in/", {}, headers={"X-Forwarded-For": f"10.0.0.{at}"})
        return answer.status_code

    assert tries(61) == 429
    settings.PLATFORM = replace(settings.PLATFORM, trusted_proxies=1)
    cache.clear()
    assert tries(61) == 200


def test_the_wait_is_that_of_the_oldest_try_that_counts(rf, clock):
    request = rf.post("/")
    assert limits.seconds_left(request, limits.ACCOUNT, "login_failed", "k") == 0


def test_nobody_signs_up_alone(client):
    for answer in (client.get("/sign-up/"), client.post("/sign-up/", {"username": "eve"})):
        assert answer.status_code == 200
        assert "Accounts are created by admins" in answer.content.decode()
    assert not User.objects.exists()


def test_an_account_that_is_switched_off_does_not_come_in(client, olga):
    User.objects.update(is_active=False)
    answer = client.post("/sign-in/", RIGHT)
    assert client.get("/account/").status_code == 302
    assert answer.status_code in (200, 302)


def test_the_console_is_entered_by_the_same_door(client, olga):
    answer = client.get("/admin/", follow=True)
    assert answer.redirect_chain[-1][0].startswith("/sign-in/?next=")
    tried = client.post("/admin/login/", RIGHT)
    assert tried.headers["Location"].startswith("/sign-in/")
    client.force_login(olga)
    assert client.get("/admin/login/").status_code == 403


def test_the_console_shows_no_row_that_allauth_keeps():
    shown = {model._meta.app_label for model in admin.site._registry}
    assert not shown & {"mfa", "account", "socialaccount", "usersessions"}


@pytest.mark.parametrize(
    "name", ["account_email", "account_reset_password", "account_confirm_email"]
)
def test_no_page_of_allauth_is_served_that_needs_a_mail_server(name):
    with pytest.raises(Exception, match="Reverse"):
        reverse(name)


def test_a_new_password_signs_every_other_browser_out(client, olga):
    there = Client()
    for browser in (client, there):
        browser.post("/sign-in/", RIGHT)
    new = "a-long-new-password-9"
    fields = {"oldpassword": "pw", "password1": new, "password2": new}
    assert client.post("/account/password/", fields).status_code == 302
    assert client.get("/account/").context["browsers"][0].is_this
    assert len(client.get("/account/").context["browsers"]) == 1
    assert there.get("/account/").status_code == 302
    assert AuditEntry.objects.filter(action="password_change", actor="olga").exists()


@pytest.mark.parametrize(
    ("wrong", "field"),
    [
        ({"oldpassword": "no"}, "oldpassword"),
        ({"password1": "12345678", "password2": "12345678"}, "password1"),
        ({"password2": "something-else-4"}, "password2"),
    ],
)
def test_a_password_that_will_not_do_is_named_at_its_field(client, olga, wrong, field):
    client.force_login(olga)
    new = "a-long-new-password-9"
    asked = {"oldpassword": "pw", "password1": new, "password2": new} | wrong
    text = client.post("/account/password/", asked).content.decode()
    assert f'id="{field}-error"' in text
    olga.refresh_from_db()
    assert olga.check_password("pw")


def test_somebody_of_the_organisation_has_no_password_to_change(client, olga):
    olga.set_unusable_password()
    olga.save()
    client.force_login(olga)
    assert client.get("/account/password/", follow=True).redirect_chain[-1][0] == "/account/"
    assert "/account/password/" not in client.get("/account/").content.decode()


def test_the_language_of_an_account_greets_on_a_new_browser(client, olga):
    client.force_login(olga)
    client.post("/language/", {"language": "zh-hans"})
    there = Client()
    assert 'lang="en"' in there.get("/sign-in/").content.decode()
    there.post("/sign-in/", RIGHT)
    assert 'lang="zh-Hans"' in there.get("/account/").content.decode()
    client.post("/language/", {"language": "xx"})
    olga.refresh_from_db()
    assert olga.language == "zh-hans"


def test_nothing_of_signing_in_asks_for_a_mail_address(client, olga):
    client.post("/sign-in/", RIGHT)
    assert not EmailAddress.objects.exists()


def test_giving_the_password_once_more_does_not_use_up_the_tries(client, olga, clock):
    client.post("/sign-in/", RIGHT)
    for _ in range(8):
        assert client.post("/sign-in/confirm/", {"password": "pw"}).status_code == 302
    assert Client().post("/sign-in/", RIGHT).status_code == 302
