"""The Account page: everything that can act in one's name is seen there, and taken away there."""

import re
from datetime import timedelta

import pytest
from allauth.usersessions.models import UserSession
from django.core.cache import cache
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from portal.accounts import sessions
from portal.accounts.models import ApiToken, Role, TokenScope
from portal.accounts.services import MAX_TOKENS, token_create
from portal.audit.models import AuditEntry
from portal.web.account.sessions import browser_name
from tests.support.rows import a_project, a_user

pytestmark = pytest.mark.django_db
TOKEN = {"name": "laptop", "scope": "write", "days": "30"}
FIREFOX = "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0"
DAY = timedelta(days=1)


@pytest.fixture(autouse=True)
def nothing_was_tried_before():
    cache.clear()


@pytest.fixture
def olga():
    return a_user("olga")


def signed_in(agent: str = FIREFOX, name: str = "olga") -> Client:
    browser = Client(headers={"User-Agent": agent})
    assert browser.post("/sign-in/", {"username": name, "password": "pw"}).status_code == 302
    return browser


def test_the_title_counts_what_can_act_for_one(client, olga):
    token_create(user=olga, name="ci", scope=TokenScope.READ, ttl=DAY)
    token_create(user=olga, name="old", scope=TokenScope.READ, ttl=DAY)
    ApiToken.objects.filter(name="old").update(expiry=timezone.now() - DAY)
    text = signed_in().get("/account/").content.decode()
    assert "1 active API token, 1 browser signed in" in text
    assert "expired" in text


def test_a_new_account_is_told_what_it_is_missing(client, olga):
    client.force_login(olga)
    text = client.get("/account/").content.decode()
    assert "You are not in a project yet" in text
    assert "No tokens yet" in text and "Password only" in text


def test_projects_are_listed_with_ones_role(client, olga):
    a_project("vision", olga, role=Role.ADMIN)
    client.force_login(olga)
    text = client.get("/account/").content.decode()
    assert "vision" in text and "project admin" in text


def test_a_token_is_shown_once_in_the_page_that_made_it(client, olga):
    client.force_login(olga)
    made = client.post("/account/tokens/", TOKEN)
    assert "no-store" in made["Cache-Control"]
    (text,) = re.findall(r'value="(tsr_\w+)"', made.content.decode())
    assert (
        client.get("/api/v1/jobs", headers={"Authorization": f"Bearer {text}"}).status_code == 200
    )
    page = client.get("/account/").content.decode()
    assert "laptop" in page and text not in page
    row = ApiToken.objects.get()
    assert row.scope == "write" and timedelta(29) < row.expiry - timezone.now() <= timedelta(30)


@pytest.mark.parametrize(
    ("wrong", "field"),
    [
        ({"name": ""}, "name"),
        ({"name": "x" * 65}, "name"),
        ({"name": "a\u202eb"}, "name"),
        ({"name": "a\x00b"}, "name"),
        ({"scope": "root"}, "scope"),
        ({"days": "0"}, "days"),
        ({"days": "366"}, "days"),
        ({"days": "9" * 5000}, "days"),
        ({"days": "soon"}, "days"),
        ({"days": "１"}, "days"),
    ],
)
def test_a_token_that_cannot_be_is_refused_at_its_field_and_keeps_the_rest(
    client, olga, wrong, field
):
    client.force_login(olga)
    answer = client.post("/account/tokens/", TOKEN | wrong)
    text = answer.content.decode()
    assert answer.status_code == 400 and f'id="{field}-error"' in text
    if field != "name":
        assert 'value="laptop"' in text
    assert not ApiToken.objects.exists()


def test_markup_in_a_name_stays_text(client, olga):
    client.force_login(olga)
    client.post("/account/tokens/", TOKEN | {"name": "<b>x</b>"})
    key = ApiToken.objects.get().token_key
    for path in ("/account/", f"/account/tokens/{key}/revoke"):
        text = client.get(path).content.decode()
        assert "<b>x</b>" not in text and "&lt;b&gt;x" in text


def test_a_51st_token_says_to_revoke_one(client, olga):
    for _ in range(MAX_TOKENS):
        token_create(user=olga, name="t", scope=TokenScope.READ, ttl=DAY)
    client.force_login(olga)
    answer = client.post("/account/tokens/", TOKEN)
    assert answer.status_code == 409 and "Revoke one" in answer.content.decode()


def test_revoking_names_what_stops_and_then_stops_it(client, olga):
    row, text = token_create(user=olga, name="ci", scope=TokenScope.READ, ttl=DAY)
    client.force_login(olga)
    address = f"/account/tokens/{row.token_key}/revoke"
    asked = client.get(address).content.decode()
    assert row.token_key in asked and "stops working immediately" in asked
    assert ApiToken.objects.exists()
    client.post(address)
    assert not ApiToken.objects.exists()
    called = Client().get("/api/v1/jobs", headers={"Authorization": f"Bearer {text}"})
    assert called.status_code == 401
    assert AuditEntry.objects.get(action="token_revoke").actor == "olga"


def test_browsers_are_listed_and_one_can_be_signed_out_from_another(olga):
    here, there = signed_in(), signed_in("curl/8.5")
    seen = here.get("/account/").context["browsers"]
    assert [(b.name, b.is_this) for b in seen] == [("curl", False), ("Firefox, Linux", True)]
    here.post(f"/account/browsers/{seen[0].pk}/end")
    assert there.get("/account/").status_code == 302
    assert here.get("/account/").status_code == 200
    assert AuditEntry.objects.filter(action="session_end", actor="olga").count() == 1


def test_signing_out_this_browser_ends_at_the_sign_in_page(olga):
    here = signed_in()
    (this,) = here.get("/account/").context["browsers"]
    answer = here.post(f"/account/browsers/{this.pk}/end")
    assert answer.headers["Location"] == "/sign-in/"
    assert here.get("/account/").status_code == 302


def test_everywhere_else_is_signed_out_at_once(olga):
    a_user("otto")
    here, *others, otto = signed_in(), signed_in(), signed_in(), signed_in(name="otto")
    here.post("/account/browsers/end")
    assert here.get("/account/").status_code == 200
    assert [b.get("/account/").status_code for b in others] == [302, 302]
    assert otto.get("/account/").status_code == 200


def test_a_browser_that_signed_out_by_itself_is_not_listed(olga):
    here, there = signed_in(), signed_in()
    there.post("/sign-out/")
    assert len(here.get("/account/").context["browsers"]) == 1


def test_last_use_is_noted_at_most_every_five_minutes(olga, monkeypatch):
    here = signed_in()
    before = UserSession.objects.get().last_seen_at
    here.get("/account/")
    assert UserSession.objects.get().last_seen_at == before
    later = sessions.time.time() + sessions.ACTIVITY_INTERVAL_SECONDS + 1
    monkeypatch.setattr(sessions.time, "time", lambda: later)
    here.get("/account/")
    assert UserSession.objects.get().last_seen_at > before


@pytest.mark.parametrize("path", ["/account/", "/account/password/", "/sign-in/"])
def test_no_page_has_inline_scripts_or_styles(client, olga, path):
    if path != "/sign-in/":
        client.force_login(olga)
    text = client.get(path).content.decode()
    assert "style=" not in text and text.count("<h1") == 1
    assert not re.search(r"<script(?![^>]*\bsrc=)", text)
    assert not re.search(r"\son[a-z]+=", text)


def test_the_page_asks_no_more_of_the_database_the_more_there_is(client, olga):
    def queries() -> int:
        with CaptureQueriesContext(connection) as seen:
            assert here.get("/account/").status_code == 200
        return len(seen)

    here = signed_in()
    few = queries()
    for n in range(5):
        token_create(user=olga, name=f"t{n}", scope=TokenScope.READ, ttl=DAY)
        a_project(f"p{n}", olga)
        signed_in()
    assert queries() == few < 20


@pytest.mark.parametrize(
    ("agent", "said"),
    [
        (FIREFOX, "Firefox, Linux"),
        ("Mozilla/5.0 (Macintosh) Chrome/140.0 Safari/537.36 Edg/140.0", "Edge, macOS"),
        ("Mozilla/5.0 (iPhone; CPU iPhone OS 19_0 like Mac OS X) Safari/604.1", "Safari, iOS"),
        ("", "unknown browser"),
        ("<script>", "unknown browser"),
    ],
)
def test_a_browser_is_named_in_words(agent, said):
    assert browser_name(agent) == said
