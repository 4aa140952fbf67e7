"""`tessera secrets`: values come from standard input, never from an argument; none is shown."""

from __future__ import annotations

import httpx

from tests.unit.cli.fake_rest import Rest

VALUE = "canary-0123456789"
ROW = {"name": "HF_TOKEN", "author": "olga", "set_at": "2026-11-26T02:00:00Z", "used_at": None}


def test_a_value_from_standard_input_is_set_without_the_end_of_its_line():
    rest = Rest().on("PUT", "secrets/HF_TOKEN", ROW)
    done = rest.run("secrets", "set", "HF_TOKEN", input=f"{VALUE}\n")
    assert done.exit_code == 0 and VALUE not in done.stderr + done.stdout
    assert rest.body("PUT", "secrets/HF_TOKEN") == {"value": VALUE}


def test_a_key_of_several_lines_stays_as_it_is():
    rest = Rest().on("PUT", "projects/vision/secrets/KEY", ROW)
    rest.run("secrets", "set", "KEY", "-p", "vision", input="-----BEGIN-----\nabc\n-----END-----\n")
    body = rest.body("PUT", "projects/vision/secrets/KEY")
    assert body == {"value": "-----BEGIN-----\nabc\n-----END-----"}


def test_a_value_as_an_argument_is_no_usage():
    rest = Rest().on("PUT", "secrets/HF_TOKEN", ROW)
    assert rest.run("secrets", "set", "HF_TOKEN", VALUE).exit_code == 2
    assert rest.calls == []


def test_nothing_on_standard_input_says_how_it_is_done():
    done = Rest().run("secrets", "set", "HF_TOKEN", input="")
    assert done.exit_code == 2 and "tessera secrets set NAME < FILE" in done.stderr


def test_names_are_listed_and_deleted():
    rest = Rest().on("GET", "secrets", {"results": [ROW]})
    rest.on("DELETE", "secrets/HF_TOKEN", httpx.Response(204))
    assert "HF_TOKEN" in rest.run("secrets", "list").stdout
    assert rest.run("secrets", "delete", "HF_TOKEN").exit_code == 0
    assert len(rest.sent("DELETE", "secrets/HF_TOKEN")) == 1
