"""`manage.py show_settings`: every setting with its source, and no secret."""

import json
from io import StringIO
from pathlib import Path

import pytest
from django.core.management import call_command

from agents.configuration.declaration import settings_of
from portal.configuration.apps import ConfigurationConfig
from portal.configuration.report import MASK, masked_url, settings_tables
from portal.platform import Platform

DOCS = Path(__file__).resolve().parents[2] / "docs" / "settings.md"


def show(*options: str) -> str:
    out = StringIO()
    call_command("show_settings", *options, stdout=out)
    return out.getvalue()


@pytest.fixture
def environ(monkeypatch, tmp_path):
    key = tmp_path / "key"
    key.write_text("of-a-file\n")
    values = {
        "TESSERA_MAX_STREAMS": "7",
        "TESSERA_SECRET_KEY_FILE": str(key),
        "TESSERA_OIDC_CLIENT_SECRET": "hunter2",
        "TESSERA_REDIS_URL": "redis://counts:hunter3@r:6379/0?password=hunter4",
        "TESSERA_BROKER_PASSWORD": "hunter5",
    }
    monkeypatch.delenv("TESSERA_SECRET_KEY", raising=False)
    for name, value in values.items():
        monkeypatch.setenv(name, value)


@pytest.mark.usefixtures("environ")
def test_each_value_has_its_source_and_secrets_are_masked():
    rows = {row["name"]: row for row in json.loads(show("--json"))}
    assert list(rows) == [one.name for one in settings_of(Platform)]
    shown = {name: (row["value"], row["source"]) for name, row in rows.items()}
    assert shown["TESSERA_MAX_STREAMS"] == ("7", "environment")
    assert shown["TESSERA_HOLD_SECONDS"] == ("20", "default")
    assert shown["TESSERA_SECRET_KEY"] == (MASK, "file")
    assert shown["TESSERA_SECRET_KEY_FALLBACKS"] == ("", "default")
    assert shown["TESSERA_REDIS_URL"] == (f"redis://counts:{MASK}@r:6379/0?{MASK}", "environment")
    assert rows["TESSERA_SECRET_KEY"]["readers"] == ["web", "worker", "beat", "migrate"]
    for text in (show("--json"), show(), show("--changed")):
        assert "hunter" not in text and "of-a-file" not in text
    assert "TESSERA_MAX_STREAMS" in show("--changed")
    assert "TESSERA_HOLD_SECONDS" not in show("--changed")


@pytest.mark.parametrize(
    ("address", "shown"),
    [
        ("postgres://t:p%40@db:5432/t", f"postgres://t:{MASK}@db:5432/t"),
        ("redis://:p@db", f"redis://:{MASK}@db"),
        ("redis://db/0", "redis://db/0"),
        ("filesystem://", "filesystem://"),
        ("sqlite:////var/db", "sqlite:////var/db"),
    ],
)
def test_a_url_is_shown_without_its_password(address, shown):
    assert masked_url(address) == shown


def test_a_misspelt_variable_is_a_line_in_the_log_of_each_process(monkeypatch, caplog):
    monkeypatch.setenv("TESSERA_LAESE_SECONDS", "60")
    ConfigurationConfig.create("portal.configuration").ready()
    assert "TESSERA_LAESE_SECONDS is not a setting" in caplog.text
    assert "did you mean TESSERA_LEASE_SECONDS?" in caplog.text


def test_the_page_of_settings_is_what_is_declared():
    """`manage.py show_settings --docs` prints the tables anew."""
    assert settings_tables() == show("--docs")
    assert DOCS.read_text("utf-8").endswith(settings_tables())
