"""Findings 2.15 and 2.16 of the security review: what a production portal and an agent refuse."""

import os
import secrets
import subprocess
import sys
from pathlib import Path

import pytest

from agents.route.portal_route import address_problem
from agents.settings import parser, settings_from
from portal import settings_choice as choice
from portal.settings.strength import secret_problem
from portal.settings_choice import SettingsNotChosen, choose_settings

ROOT = Path(__file__).resolve().parents[2]
STRONG = "kJ3v-Qp9_zR7tYw2XbN5mLc8Df4Gh6Sa1Ue0Io-ViBxWqZyTrEpOnM"


@pytest.mark.parametrize(
    ("secret", "problem"),
    [
        ("", "at least 50"),
        (STRONG[:49], "at least 50"),
        ("a" * 55, "repeats its characters"),
        ("ab" * 30, "repeats its characters"),
        ("0123456789" * 6, "repeats its characters"),
        (STRONG[:28] * 2, "repeats its characters"),
        (STRONG[:20] * 3 + STRONG[:7], "repeats its characters"),
        ("only-for-this-machine-" + STRONG, "begins like an example"),
        ("django-insecure-" + STRONG, "begins like an example"),
    ],
)
def test_a_weak_secret_is_refused_with_how_to_make_one(secret, problem):
    assert problem in secret_problem(secret)
    assert "openssl rand" in secret_problem(secret)


def test_random_secrets_are_accepted():
    for _ in range(200):
        assert secret_problem(secrets.token_hex(25)) == ""
        assert secret_problem(secrets.token_urlsafe(48)) == ""


def start_production(tmp_path, **environ: str) -> str:
    """What the production settings say when they are loaded; empty if they start."""
    env = {name: value for name, value in os.environ.items() if not name.startswith("TESSERA_")}
    env |= {
        "DJANGO_SETTINGS_MODULE": "portal.settings.prod",
        "TESSERA_VAR": str(tmp_path),
        "TESSERA_DATABASE_URL": "postgres://nobody@localhost/none",
        "TESSERA_SECRET_KEY": STRONG,
        "TESSERA_ALLOWED_HOSTS": "gpu.example.org",
    } | environ
    command = [sys.executable, "-c", "import portal.settings.prod"]
    done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, check=False)
    return done.stderr.splitlines()[-1] if done.returncode else ""


@pytest.mark.parametrize(
    ("environ", "problem"),
    [
        ({}, ""),
        ({"TESSERA_SECRET_KEY": "a" * 55}, "repeats its characters"),
        ({"TESSERA_ALLOWED_HOSTS": "*"}, "must name the portal's hosts"),
        ({"TESSERA_ALLOWED_HOSTS": "gpu.example.org, *"}, "must name the portal's hosts"),
        ({"TESSERA_DATABASE_URL": "sqlite:///x"}, "PostgreSQL"),
    ],
)
def test_production_settings_refuse_what_is_open(tmp_path, environ, problem):
    found = start_production(tmp_path, **environ)
    assert (problem in found) if problem else found == ""


def test_a_forgotten_settings_module_is_an_error_where_nothing_is_developed(monkeypatch):
    monkeypatch.setattr(choice, "find_spec", lambda name: None)
    environ: dict[str, str] = {}
    for command in (["manage.py", "migrate"], ["uvicorn", "portal.asgi:application"], ["celery"]):
        with pytest.raises(SettingsNotChosen, match=r"portal\.settings\.prod"):
            choose_settings(environ, command)
    assert environ == {}
    choose_settings(environ, ["manage.py", "demo"])
    assert environ == {"DJANGO_SETTINGS_MODULE": "portal.settings.dev"}
    chosen = {"DJANGO_SETTINGS_MODULE": "portal.settings.prod"}
    choose_settings(chosen, ["celery"])
    assert chosen == {"DJANGO_SETTINGS_MODULE": "portal.settings.prod"}


def test_every_entry_point_chooses_its_settings_in_one_place():
    for name in ("portal/__main__.py", "portal/asgi.py", "portal/celery.py"):
        text = (ROOT / name).read_text()
        assert "choose_settings()" in text and "settings.dev" not in text, name


@pytest.mark.parametrize(
    ("url", "problem"),
    [
        ("https://gpu.example.org", ""),
        ("http://127.0.0.1:8000", ""),
        ("http://127.9.9.9", ""),
        ("http://[::1]:8000", ""),
        ("http://localhost:8000", ""),
        ("http://gpu.example.org", "plain HTTP"),
        ("http://10.0.0.7:8000", "plain HTTP"),
        ("http://localhost.evil.com", "plain HTTP"),
        ("http://127.0.0.1.evil.com", "plain HTTP"),
        ("http://127.0.0.1@evil.com", "plain HTTP"),
        ("gpu.example.org", "not the address of a portal"),
        ("ftp://gpu.example.org", "not the address of a portal"),
        ("https://", "not the address of a portal"),
    ],
)
def test_an_agent_speaks_tls_but_for_loopback(url, problem):
    found = address_problem(url, allow_plain_http=False)
    assert (problem in found) if problem else found == ""


def test_plain_http_needs_a_flag(monkeypatch):
    monkeypatch.delenv("TESSERA_AGENT_ALLOW_PLAIN_HTTP", raising=False)
    words = ["run", "--portal", "http://gpu.example.org"]
    with pytest.raises(SystemExit, match="--allow-plain-http"):
        settings_from(parser().parse_args(words))
    allowed = settings_from(parser().parse_args([*words, "--allow-plain-http"]))
    assert allowed.route.addresses == ("http://gpu.example.org",)
    monkeypatch.setenv("TESSERA_AGENT_ALLOW_PLAIN_HTTP", "1")
    assert settings_from(parser().parse_args(words)).route == allowed.route
