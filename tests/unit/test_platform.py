"""Settings from the environment: what cannot be meant is refused, with the variable's name."""

from dataclasses import fields
from pathlib import Path

import pytest

from portal.platform import Platform, platform_from


@pytest.mark.parametrize(
    ("text", "wrong"), [("-1", "'-1' is below 0"), ("a week", "'a week' is not int")]
)
def test_a_limit_that_cannot_be_meant_is_refused_by_name(text, wrong):
    with pytest.raises(ValueError, match=f"TESSERA_LOG_RETENTION_DAYS={wrong}"):
        platform_from({"TESSERA_LOG_RETENTION_DAYS": text})


def test_settings_are_read_and_others_keep_their_defaults():
    platform = platform_from({"TESSERA_LOG_RETENTION_DAYS": "30", "HOME": "/root"})
    assert (platform.log_retention_days, platform.log_retention_mib) == (30, 0)


def test_containers_get_every_setting_of_logs_and_events():
    compose = (Path(__file__).resolve().parents[2] / "docker-compose.yml").read_text()
    names = [f.name for f in fields(Platform) if f.name.startswith(("s3_", "log_", "event_"))]
    assert len(names) == 11
    assert [
        n for n in names if f"TESSERA_{n.upper()}: ${{TESSERA_{n.upper()}:-" not in compose
    ] == []
