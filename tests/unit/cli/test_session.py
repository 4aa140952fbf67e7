"""Signing in and out, and who one is."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from tests.unit.cli.fake_rest import URL, Rest, problem

NONE = {"TESSERA_URL": "", "TESSERA_TOKEN": ""}
TOKEN = {"id": "tsr_abcd", "name": "laptop", "scope": "write", "expires_at": None}


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    return NONE | {"TESSERA_CONFIG": str(tmp_path / "kept.yaml")}


def a_rest() -> Rest:
    mine = {
        "user": "olga",
        "is_platform_admin": False,
        "projects": [{"slug": "vision", "role": "member"}],
        "token": TOKEN,
    }
    return Rest().on("GET", "me", mine)


def kept(env: dict[str, str]) -> dict:
    return yaml.safe_load(Path(env["TESSERA_CONFIG"]).read_text())


def test_a_token_from_standard_input_is_tried_and_kept(env):
    rest = a_rest()
    done = rest.run("login", URL, "--token-stdin", "--project", "vision", env=env, input="tsr_x\n")
    assert done.exit_code == 0 and "vision" in done.stderr
    assert kept(env) == {"url": URL, "token": "tsr_x", "project": "vision"}
    assert rest.calls[0].headers["Authorization"] == "Bearer tsr_x"
    assert "tsr_x" not in done.output


def test_the_way_to_the_portal_is_kept_as_it_was_named(env, tmp_path, monkeypatch):
    """A password of the environment is used and not kept."""
    monkeypatch.chdir(tmp_path)
    words = ("--ca-file", "ca.pem", "--proxy", "http://proxy.example:3128")
    shell = env | {"TESSERA_PROXY": "http://me:word@other.example:3128"}
    done = a_rest().run("login", URL, "--token-stdin", *words, env=shell, input="tsr_x\n")
    assert done.exit_code == 0, done.stderr
    way = {"ca_file": str(tmp_path / "ca.pem"), "proxy": "http://proxy.example:3128"}
    assert kept(env) == {"url": URL, "token": "tsr_x"} | way
    again = a_rest().run("login", URL, "--token-stdin", env=shell, input="tsr_y\n")
    assert again.exit_code == 0 and kept(env) == {"url": URL, "token": "tsr_y"} | way


def test_a_password_on_the_command_line_is_refused(env):
    words = ("login", URL, "--token-stdin", "--proxy", "http://me:word@proxy.example")
    done = a_rest().run(*words, env=env, input="tsr_x\n")
    assert done.exit_code == 2 and "TESSERA_PROXY" in done.stderr
    assert not Path(env["TESSERA_CONFIG"]).exists()


def test_a_prompt_does_not_echo_the_token(env):
    done = a_rest().run("login", URL, env=env, asks=True, input="tsr_secret\n")
    assert done.exit_code == 0 and kept(env)["token"] == "tsr_secret"
    assert "tsr_secret" not in done.output


def test_a_token_that_is_refused_is_not_kept(env):
    rest = Rest().on("GET", "me", problem(401, "authentication_failed"))
    done = rest.run("login", URL, "--token-stdin", env=env, input="tsr_x\n")
    assert done.exit_code == 4 and not Path(env["TESSERA_CONFIG"]).exists()


def test_a_project_of_others_is_not_kept(env):
    words = ("login", URL, "--token-stdin", "--project", "speech")
    done = a_rest().run(*words, env=env, input="tsr_x\n")
    assert done.exit_code == 2 and not Path(env["TESSERA_CONFIG"]).exists()


def test_without_a_terminal_nothing_is_asked(env):
    assert a_rest().run("login", env=env).exit_code == 2
    assert a_rest().run("login", URL, env=env).exit_code == 2
    assert a_rest().run("login", URL, "--token-stdin", env=env, input="\n").exit_code == 2


def test_a_token_in_the_clear_is_warned_of(env):
    address = "http://gpu.example.org"
    done = a_rest().run("login", address, "--token-stdin", env=env, input="tsr_x\n")
    assert "not HTTPS" in done.stderr


def test_signing_out_forgets(env):
    rest = a_rest()
    rest.run("login", URL, "--token-stdin", env=env, input="tsr_x\n")
    assert rest.run("logout", env=env).exit_code == 0
    assert not Path(env["TESSERA_CONFIG"]).exists()
    assert rest.run("ps", env=env).exit_code == 4


def test_signing_out_can_delete_the_token(env):
    rest = a_rest().on("DELETE", "tokens/tsr_abcd", {})
    rest.run("login", URL, "--token-stdin", env=env, input="tsr_abcdefg\n")
    assert rest.run("logout", "--revoke", env=env).exit_code == 0
    assert len(rest.sent("DELETE", "tokens/tsr_abcd")) == 1


def test_whoami_tells_the_token_and_the_projects(env):
    mine = {"TESSERA_TOKEN": "tsr_abcdefg"}
    out = a_rest().run("whoami", env=mine).stdout
    for told in (URL, "olga", "laptop", "write", "vision (member)", "never"):
        assert told in out
    assert "tsr_abcdefg" not in out
    told = json.loads(a_rest().run("whoami", "-o", "json", env=mine).stdout)
    assert (told["user"], told["projects"], told["token"]) == ("olga", ["vision"], TOKEN)


def test_version_and_completion_need_no_portal(env):
    assert Rest().run("--version", env=env).stdout.startswith("tessera ")
    for shell in ("bash", "zsh", "fish"):
        done = Rest().run("completion", shell, env=env)
        assert done.exit_code == 0 and "_TESSERA_COMPLETE" in done.stdout
    assert Rest().run("completion", "tcsh", env=env).exit_code == 2
