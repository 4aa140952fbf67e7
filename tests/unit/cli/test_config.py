"""The file of address and token, and how the environment wins over it."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from portal.cli.config import (
    PortalAccess,
    config_path,
    delete_access,
    load_access,
    parse_url,
    store_access,
    stored_access,
)
from portal.cli.exit_codes import CommandFailed, ExitCode

KEPT = PortalAccess("https://gpu.example.org", "tsr_kept", "vision")


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    return {"XDG_CONFIG_HOME": str(tmp_path / "config")}


def test_the_file_is_read_by_its_owner_alone(env):
    before = os.umask(0)
    try:
        path = store_access(env, KEPT)
    finally:
        os.umask(before)
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o777 == 0o700
    assert stored_access(env) == KEPT


def test_a_wider_mode_does_not_stay_when_it_is_written_again(env):
    store_access(env, KEPT).chmod(0o644)
    assert store_access(env, KEPT).stat().st_mode & 0o777 == 0o600
    assert len(list(config_path(env).parent.iterdir())) == 1


def test_the_way_there_is_that_of_its_address_unless_the_environment_has_another(env):
    way = replace(KEPT, ca_file="/etc/ca.pem", proxy="http://proxy.example:3128")
    store_access(env, way)
    assert load_access(env) == way
    other = {"TESSERA_URL": "https://other.example", "TESSERA_TOKEN": "tsr_other"}
    elsewhere = load_access(env | other)
    assert (elsewhere.ca_file, elsewhere.proxy) == ("", "")
    named = load_access(env | {"TESSERA_CA_FILE": "/ca", "TESSERA_PROXY": "http://p:1"})
    assert (named.ca_file, named.proxy) == ("/ca", "http://p:1")
    assert stored_access(env) == way


def test_the_environment_wins(env):
    store_access(env, KEPT)
    assert load_access(env) == KEPT
    assert load_access(env | {"TESSERA_TOKEN": "tsr_env"}).token == "tsr_env"
    assert load_access(env | {"TESSERA_PROJECT": "speech"}).project == "speech"


def test_a_token_may_be_in_a_file(env, tmp_path):
    store_access(env, KEPT)
    file = tmp_path / "token"
    file.write_text("tsr_file\n")
    from_file = env | {"TESSERA_TOKEN_FILE": str(file)}
    assert load_access(from_file).token == "tsr_file"
    with pytest.raises(CommandFailed, match="are both set: keep one") as failed:
        load_access(from_file | {"TESSERA_TOKEN": "tsr_env"})
    assert failed.value.exit_code is ExitCode.USAGE
    file.unlink()
    with pytest.raises(CommandFailed, match=r"TESSERA_TOKEN_FILE: .* cannot be read"):
        load_access(from_file)
    # Whatever is wrong with it, one can sign out.
    assert delete_access(from_file)


def test_a_kept_token_goes_to_no_other_address(env):
    store_access(env, KEPT)
    with pytest.raises(CommandFailed, match="No token is saved for https://elsewhere") as failed:
        load_access(env | {"TESSERA_URL": "https://elsewhere.example.org"})
    assert failed.value.exit_code is ExitCode.DENIED


def test_without_anything_one_is_told_to_sign_in(env):
    with pytest.raises(CommandFailed, match="not_signed_in") as failed:
        load_access(env)
    assert failed.value.next_command == "tessera login URL"


@pytest.mark.parametrize("text", ["- a list", "{", "\x00", "a: b: c"])
def test_a_broken_file_says_so(env, text: str):
    store_access(env, KEPT).write_text(text)
    with pytest.raises(CommandFailed, match="config_invalid"):
        stored_access(env)


def test_forgetting_twice_is_harmless(env):
    store_access(env, KEPT)
    assert (delete_access(env), delete_access(env)) == (True, False)


@pytest.mark.parametrize(
    ("text", "url"),
    [
        ("gpu.example.org/", "https://gpu.example.org"),
        ("http://localhost:8000/api/v1/", "http://localhost:8000"),
    ],
)
def test_an_address_is_understood(text: str, url: str):
    assert parse_url(text) == url


@pytest.mark.parametrize(
    "text", ["", "ftp://x", "https://", "https://user:pw@x", "https://x/?a=b", "http://[::1"]
)
def test_other_addresses_are_refused(text: str):
    with pytest.raises(CommandFailed, match="url_invalid"):
        parse_url(text)
