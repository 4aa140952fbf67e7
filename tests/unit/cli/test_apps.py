"""`tessera apps`: sharing, and tokens that are printed once."""

from __future__ import annotations

import httpx

from tests.unit.cli.fake_rest import Rest, problem

TOKEN = {
    "id": "tsa_0123456789ab",
    "name": "ci",
    "project": "vision",
    "job": "J-12",
    "app": "llm",
    "created_at": "2026-11-26T02:00:00Z",
    "expires_at": "2027-02-24T02:00:00Z",
    "last_used_at": None,
    "requests": 3,
    "bytes_in": 10,
    "bytes_out": 2_000,
}
APP = {"name": "web", "port": 80, "address": "", "may_open": True, "guests": [{"user": "gus"}]}


def test_an_app_is_shared_listed_and_taken_back():
    rest = Rest().on("PUT", "jobs/J-12/apps/web/guests/gus", {"user": "gus"})
    rest.on("GET", "jobs/J-12/apps", {"results": [APP]})
    rest.on("DELETE", "jobs/J-12/apps/web/guests/gus", httpx.Response(204))
    assert "gus may open web of J-12" in rest.run("apps", "share", "J-12", "web", "gus").stderr
    assert "gus" in rest.run("apps", "list", "J-12").stdout
    assert rest.run("apps", "unshare", "J-12", "web", "gus").exit_code == 0
    rest = Rest().on("PUT", "jobs/J-12/apps/web/guests/x", problem(404, "not_found"))
    assert rest.run("apps", "share", "J-12", "web", "x").exit_code == 3


def test_a_new_token_alone_is_on_standard_output():
    rest = Rest().on("POST", "app-tokens", TOKEN | {"token": "tsa_secret"})
    done = rest.run("apps", "token", "ci", "--job", "J-12", "--app", "llm")
    assert (done.exit_code, done.stdout) == (0, "tsa_secret\n")
    body = {"name": "ci", "job": "J-12", "app": "llm", "project": "", "days": 90}
    assert rest.body("POST", "app-tokens") == body
    for wrong in ([], ["--job", "J-12"], ["--job", "J-12", "--app", "a", "--project", "p"]):
        assert rest.run("apps", "token", "ci", *wrong).exit_code == 2


def test_tokens_are_listed_with_their_usage_and_revoked():
    rest = Rest().on("GET", "app-tokens", {"results": [TOKEN]})
    rest.on("GET", "guest-apps", {"results": []})
    rest.on("DELETE", "app-tokens/tsa_0123456789ab", httpx.Response(204))
    listed = rest.run("apps", "tokens").stdout
    assert "llm of J-12" in listed and "2000" in listed and "never" in listed
    assert "Nobody shares" in rest.run("apps", "shared").stderr
    assert rest.run("apps", "revoke", "tsa_0123456789ab").exit_code == 0
