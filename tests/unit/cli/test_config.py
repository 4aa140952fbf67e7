"""The file of address and token, and how the environment wins over it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from portal.cli.config import Access, access, config_path, forget, read_url, store, stored
from portal.cli.exit_codes import Exit, Failed

KEPT = Access("https://gpu.example.org", "tsr_kept", "vision")


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    return {"XDG_CONFIG_HOME": str(tmp_path / "config")}


def test_the_file_is_read_by_its_owner_alone(env):
    before = os.umask(0)
    try:
        path = store(env, KEPT)
    finally:
        os.umask(before)
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o777 == 0o700
    assert stored(env) == KEPT


def test_a_wider_mode_does_not_stay_when_it_is_written_again(env):
    store(env, KEPT).chmod(0o644)
    assert store(env, KEPT).stat().st_mode & 0o777 == 0o600
    assert len(list(config_path(env).parent.iterdir())) == 1


def test_the_environment_wins(env):
    store(env, KEPT)
    assert access(env) == KEPT
    assert access(env | {"TESSERA_TOKEN": "tsr_env"}).token == "tsr_env"
    assert access(env | {"TESSERA_PROJECT": "speech"}).project == "speech"


def test_a_kept_token_goes_to_no_other_address(env):
    store(env, KEPT)
    with pytest.raises(Failed, match="no token for https://elsewhere") as failed:
        access(env | {"TESSERA_URL": "https://elsewhere.example.org"})
    assert failed.value.exit is Exit.DENIED


def test_without_anything_one_is_told_to_sign_in(env):
    with pytest.raises(Failed, match="not_signed_in") as failed:
        access(env)
    assert failed.value.next == "tessera login URL"


@pytest.mark.parametrize("text", ["- a list", "{", "\x00", "a: b: c"])
def test_a_broken_file_says_so(env, text: str):
    store(env, KEPT).write_text(text)
    with pytest.raises(Failed, match="config_invalid"):
        stored(env)


def test_forgetting_twice_is_harmless(env):
    store(env, KEPT)
    assert (forget(env), forget(env)) == (True, False)


@pytest.mark.parametrize(
    ("text", "url"),
    [
        ("gpu.example.org/", "https://gpu.example.org"),
        ("http://localhost:8000/api/v1/", "http://localhost:8000"),
    ],
)
def test_an_address_is_understood(text: str, url: str):
    assert read_url(text) == url


@pytest.mark.parametrize(
    "text", ["", "ftp://x", "https://", "https://user:pw@x", "https://x/?a=b", "http://[::1"]
)
def test_other_addresses_are_refused(text: str):
    with pytest.raises(Failed, match="url_invalid"):
        read_url(text)
