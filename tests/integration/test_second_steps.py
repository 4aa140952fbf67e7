"""Second steps: an app's codes and recovery codes, from switching them on to losing them."""

import re

import pytest
from allauth.mfa.adapter import get_adapter
from allauth.mfa.models import Authenticator
from allauth.mfa.totp.internal.auth import (
    format_hotp_value,
    hotp_value,
    yield_hotp_counters_from_time,
)
from django.core.cache import cache
from django.test import Client

from portal.accounts.profiles import second_steps_remove
from portal.audit.models import AuditEntry
from tests.support.rows import a_user

pytestmark = pytest.mark.django_db
PASSWORD = {"username": "olga", "password": "pw"}
APP = "/account/second-step/app/"


@pytest.fixture(autouse=True)
def nothing_was_tried_before():
    cache.clear()


@pytest.fixture
def olga():
    return a_user("olga")


def code_of(secret: str) -> str:
    counter = list(yield_hotp_counters_from_time())[1]
    return format_hotp_value(hotp_value(secret, counter))


def confirmed() -> Client:
    """A browser in which olga has just given her password once more."""
    client = Client()
    client.post("/sign-in/", PASSWORD)
    client.post("/sign-in/confirm/", {"password": "pw", "next": "/account/"})
    return client


def switched_on() -> tuple[Client, list[str]]:
    client = confirmed()
    page = client.get(APP).content.decode()
    (secret,) = re.findall(r'id="key">(\w+)<', page)
    answer = client.post(APP, {"code": code_of(secret)}, follow=True)
    assert answer.redirect_chain[-1][0] == "/account/second-step/codes/"
    return client, re.findall(
        r"^(?:<pre[^>]*>)?(\d{8})$", answer.content.decode().replace(">", ">\n"), re.M
    )


def test_an_app_is_added_with_a_code_and_gives_recovery_codes(
    olga, django_capture_on_commit_callbacks
):
    with django_capture_on_commit_callbacks(execute=True):
        client, codes = switched_on()
    assert len(codes) == 10
    text = client.get("/account/").content.decode()
    assert "Two-factor authentication is on" in text and "10 left" in text
    kinds = AuditEntry.objects.filter(action="second_step_add").values_list("after", flat=True)
    assert {"kind": "totp"} in list(kinds)


def test_a_wrong_code_adds_nothing_and_keeps_the_key(olga):
    client = confirmed()
    (secret,) = re.findall(r'id="key">(\w+)<', client.get(APP).content.decode())
    text = client.post(APP, {"code": "000000"}).content.decode()
    assert 'id="code-error"' in text and secret in text
    assert not Authenticator.objects.exists()


def test_a_password_alone_then_opens_nothing(olga):
    _, codes = switched_on()
    client = Client()
    answer = client.post("/sign-in/", PASSWORD | {"next": "/cluster/"})
    assert answer.headers["Location"].startswith("/sign-in/second-step/")
    assert client.get("/account/").status_code == 302
    assert client.get("/api/v1/jobs").status_code == 401
    wrong = client.post("/sign-in/second-step/", {"code": "12345678"})
    assert "Incorrect code" in wrong.content.decode()
    right = client.post("/sign-in/second-step/", {"code": codes[0]})
    assert right.headers["Location"] == "/cluster/"
    assert client.get("/account/").status_code == 200


def test_a_recovery_code_works_once(olga):
    _, codes = switched_on()
    for status in (302, 200):
        client = Client()
        client.post("/sign-in/", PASSWORD)
        assert client.post("/sign-in/second-step/", {"code": codes[3]}).status_code == status


def test_guessing_codes_is_stopped(olga):
    switched_on()
    client = Client()
    client.post("/sign-in/", PASSWORD)
    said = [client.post("/sign-in/second-step/", {"code": "0"}).content.decode() for _ in range(6)]
    assert "Too many attempts" not in said[4] and "Try again in 5 min" in said[5]


def test_secrets_are_kept_so_that_the_database_alone_makes_no_codes(olga):
    client = confirmed()
    (secret,) = re.findall(r'id="key">(\w+)<', client.get(APP).content.decode())
    client.post(APP, {"code": code_of(secret)})
    assert secret not in repr(list(Authenticator.objects.values()))
    assert get_adapter().decrypt(Authenticator.objects.get(type="totp").data["secret"]) == secret


def test_after_the_portals_secret_was_replaced_no_code_is_right_rather_than_a_known_one(
    olga, settings
):
    switched_on()
    settings.SECRET_KEY = "another"
    kept = Authenticator.objects.get(type="totp").data["secret"]
    assert get_adapter().decrypt(kept) != get_adapter().decrypt(kept)
    client = Client()
    client.post("/sign-in/", PASSWORD)
    for empty in ("", code_of("")):
        assert client.post("/sign-in/second-step/", {"code": empty}).status_code == 200


def test_the_old_secret_is_still_read_while_it_is_named_as_a_fallback(settings):
    kept = get_adapter().encrypt("text")
    settings.SECRET_KEY_FALLBACKS, settings.SECRET_KEY = [settings.SECRET_KEY], "another"
    assert get_adapter().decrypt(kept) == "text"


def test_removing_the_app_is_asked_first_and_then_the_password_is_enough(olga):
    client, _ = switched_on()
    assert "Remove the authenticator app?" in client.get(f"{APP}off/").content.decode()
    client.post(f"{APP}off/")
    assert not Authenticator.objects.exists()
    assert Client().post("/sign-in/", PASSWORD | {"next": "/"}).headers["Location"] == "/"


def test_an_admin_takes_the_steps_of_somebody_who_lost_them(olga):
    switched_on()
    assert second_steps_remove(user=olga, actor="root") == 2
    assert Client().post("/sign-in/", PASSWORD | {"next": "/"}).headers["Location"] == "/"
    line = AuditEntry.objects.get(action="second_steps_remove")
    assert (line.actor, line.noun_id) == ("root", "olga")


def test_new_recovery_codes_end_the_old_ones(olga):
    client, codes = switched_on()
    client.post("/account/second-step/codes/new/")
    shown = client.get("/account/second-step/codes/").content.decode()
    assert not any(code in shown for code in codes)


@pytest.mark.parametrize(
    "credential", ["", "x", "[]", "{}", "null", '{"id": 1}', '{"response": []}', '{"response": {}}']
)
@pytest.mark.parametrize("path", ["/sign-in/passkey/", "/account/passkeys/add/"])
def test_a_passkey_made_up_by_hand_is_bad_input_and_no_fault(olga, path, credential):
    client = Client() if path.startswith("/sign-in/") else confirmed()
    client.get(path, headers={"Accept": "application/json"})
    answer = client.post(path, {"credential": credential, "name": "k"})
    assert answer.status_code in (200, 302)
    assert not Authenticator.objects.exists()


def test_the_passkey_of_nobody_signs_nobody_in(olga):
    client = Client()
    options = client.get("/sign-in/passkey/", headers={"Accept": "application/json"}).json()
    assert options["request_options"]["publicKey"]["challenge"]
    assert client.get("/account/").status_code == 302


@pytest.mark.parametrize(
    "path", [APP, "/account/second-step/codes/", "/account/passkeys/add/", "/sign-in/confirm/"]
)
def test_no_page_has_inline_scripts_or_styles(olga, path):
    client, _ = switched_on()
    text = client.get(path, follow=True).content.decode()
    assert "style=" not in text and text.count("<h1") == 1
    assert not re.search(r"<script(?![^>]*\bsrc=)", text)


def test_pages_with_secrets_are_kept_by_no_cache(olga):
    client, _ = switched_on()
    for path in ("/account/second-step/codes/", "/account/passkeys/add/"):
        assert "no-store" in client.get(path)["Cache-Control"]
