"""API tokens: shown once, kept as a digest, bounded by scope and time."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.core.cache import cache
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone
from rest_framework.test import APIClient

from portal.accounts.models import ApiToken, TokenScope
from portal.accounts.services import MAX_TOKENS, token_create
from portal.audit.models import AuditEntry
from portal.errors import Refused
from tests.support.rows import a_project, a_user

DAY = timedelta(days=1)


@pytest.fixture
def olga(db):
    cache.clear()
    return a_user("olga")


def _with(text: str, word: str = "Bearer") -> APIClient:
    client = APIClient()
    client.credentials(HTTP_AUTHORIZATION=f"{word} {text}")
    return client


def _everything_stored() -> str:
    """Every column of every table that could hold a token, as text."""
    rows = [*ApiToken.objects.values(), *AuditEntry.objects.values()]
    return repr(rows)


def test_a_token_is_shown_once_and_only_its_digest_is_kept(olga):
    client = APIClient()
    client.force_login(olga)
    body = {"name": "laptop", "scope": "write", "days": 7}
    made = client.post("/api/v1/tokens", body, format="json")
    text = made.json()["token"]
    assert made.status_code == 201 and made["Cache-Control"] == "no-store"
    assert len(text) >= 64 and text.startswith("tsr_")
    listed = client.get("/api/v1/tokens")
    assert text not in listed.content.decode()
    assert listed.json()["results"][0]["id"] == made.json()["id"]
    assert text not in _everything_stored()
    row = ApiToken.objects.get()
    assert row.digest not in listed.content.decode()
    assert timedelta(days=6.9) < row.expiry - timezone.now() <= timedelta(days=7)


@pytest.mark.parametrize("word", ["Bearer", "bearer", "Token"])
def test_a_token_signs_its_owner_in(olga, word):
    _, text = token_create(user=olga, name="t", scope=TokenScope.READ, ttl=DAY)
    assert _with(text, word).get("/api/v1/jobs").status_code == 200


def test_wrong_old_and_revoked_tokens_are_turned_away(olga):
    row, text = token_create(user=olga, name="t", scope=TokenScope.READ, ttl=DAY)
    for bad in (text[:-1] + ("0" if text[-1] != "0" else "1"), "x", "", "a b", "tsr_é"):
        answer = _with(bad).get("/api/v1/jobs")
        assert answer.status_code == 401
        assert answer["WWW-Authenticate"] == "Bearer"
        assert answer["Content-Type"] == "application/problem+json"
    ApiToken.objects.filter(pk=row.pk).update(expiry=timezone.now() - DAY)
    assert _with(text).get("/api/v1/jobs").status_code == 401
    assert ApiToken.objects.filter(pk=row.pk).exists()
    ApiToken.objects.filter(pk=row.pk).delete()
    assert _with(text).get("/api/v1/jobs").status_code == 401


def test_a_token_of_an_inactive_user_is_turned_away(olga):
    _, text = token_create(user=olga, name="t", scope=TokenScope.READ, ttl=DAY)
    olga.is_active = False
    olga.save()
    assert _with(text).get("/api/v1/jobs").status_code == 401


@pytest.mark.parametrize(
    ("scope", "method", "path", "status"),
    [
        (TokenScope.READ, "get", "jobs", 200),
        (TokenScope.READ, "post", "jobs", 403),
        (TokenScope.WRITE, "post", "jobs", 400),
        (TokenScope.WRITE, "post", "tokens", 403),
        (TokenScope.WRITE, "post", "nodes", 403),
        (TokenScope.ADMIN, "post", "nodes", 400),
        (TokenScope.ADMIN, "post", "tokens", 400),
    ],
)
def test_scopes_bound_even_a_platform_admin(db, scope, method, path, status):
    cache.clear()
    root = a_user("root", is_superuser=True)
    _, text = token_create(user=root, name="t", scope=scope, ttl=DAY)
    answer = getattr(_with(text), method)(f"/api/v1/{path}", {}, format="json")
    assert answer.status_code == status
    if status == 403:
        assert answer.json()["code"] == "scope_missing"


def test_last_use_is_written_at_most_once_a_minute(olga):
    row, text = token_create(user=olga, name="t", scope=TokenScope.READ, ttl=DAY)
    client = _with(text)

    def writes() -> int:
        with CaptureQueriesContext(connection) as seen:
            client.get("/api/v1/nodes")
        return sum(q["sql"].startswith("UPDATE") for q in seen)

    assert [writes(), writes(), writes()] == [1, 0, 0]
    old = timezone.now() - timedelta(minutes=2)
    ApiToken.objects.filter(pk=row.pk).update(last_used_at=old)
    assert writes() == 1


def test_a_token_is_revoked_by_its_owner_with_an_audit_line(olga):
    row, text = token_create(user=olga, name="t", scope=TokenScope.READ, ttl=DAY)
    client = APIClient()
    client.force_login(olga)
    assert client.delete(f"/api/v1/tokens/{row.token_key}").status_code == 204
    assert _with(text).get("/api/v1/jobs").status_code == 401
    actions = list(AuditEntry.objects.values_list("action", flat=True))
    assert actions == ["token_refused", "token_revoke", "token_create"]


@pytest.mark.parametrize("days", [0, -1, 366])
def test_a_token_lives_at_most_a_year(olga, days):
    with pytest.raises(Refused, match="ttl_invalid"):
        token_create(user=olga, name="t", scope=TokenScope.READ, ttl=timedelta(days=days))
    client = APIClient()
    client.force_login(olga)
    answer = client.post("/api/v1/tokens", {"name": "t", "days": days}, format="json")
    assert answer.json()["errors"][0]["field"] == "days"


def test_nobody_gathers_tokens_without_end(olga):
    for _ in range(MAX_TOKENS):
        token_create(user=olga, name="t", scope=TokenScope.READ, ttl=DAY)
    with pytest.raises(Refused, match="too_many_tokens"):
        token_create(user=olga, name="t", scope=TokenScope.READ, ttl=DAY)


def test_a_session_needs_its_csrf_token(olga):
    client = APIClient(enforce_csrf_checks=True)
    client.force_login(olga)
    a_project("vision", olga)
    answer = client.post("/api/v1/tokens", {"name": "t"}, format="json")
    assert (answer.status_code, ApiToken.objects.count()) == (403, 0)
