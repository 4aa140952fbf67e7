"""`tessera registries`: passwords come from standard input, never from an argument."""

from __future__ import annotations

import httpx

from tests.unit.cli.fake_rest import Rest

PASSWORD = "canary-0123456789"
ROW = {
    "address": "ghcr.io/team",
    "user": "robot",
    "author": "olga",
    "set_at": "2026-11-26T02:00:00Z",
    "used_at": None,
}
PATH = "projects/vision/registries"


def test_a_password_from_standard_input_is_set():
    rest = Rest().on("PUT", f"{PATH}/ghcr.io/team", ROW)
    arguments = ("registries", "set", "ghcr.io/team", "-p", "vision", "--user", "robot")
    done = rest.run(*arguments, input=f"{PASSWORD}\n")
    assert done.exit_code == 0 and PASSWORD not in done.stderr + done.stdout
    body = rest.body("PUT", f"{PATH}/ghcr.io/team")
    assert body == {"user": "robot", "password": PASSWORD}
    assert rest.run(*arguments, PASSWORD).exit_code == 2
    assert rest.run(*arguments, input="").exit_code == 2


def test_they_are_listed_and_deleted():
    rest = Rest().on("GET", PATH, {"results": [ROW]})
    rest.on("DELETE", f"{PATH}/ghcr.io", httpx.Response(204))
    assert "ghcr.io/team" in rest.run("registries", "list", "-p", "vision").stdout
    assert rest.run("registries", "delete", "ghcr.io", "-p", "vision").exit_code == 0
    assert len(rest.sent("DELETE", f"{PATH}/ghcr.io")) == 1
