"""Settings of the portal: what cannot be meant is refused, and every name is declared."""

import ast
import re
from pathlib import Path

import pytest

from agents.configuration.declaration import settings_of
from portal.configuration.report import known_names
from portal.platform import Platform, platform_from

ROOT = Path(__file__).resolve().parents[2]
# What a job finds in its environment (docs/launchers.md).
OF_JOBS = {
    f"TESSERA_{name}"
    for name in (
        *("ATTEMPT", "BACKEND", "DEVICES", "JOB", "MASTER_ADDR", "MASTER_PORT", "NAME"),
        *("OUTPUT_DIR", "PEERS", "RANK", "WORLD_SIZE"),
        *("CHECKPOINT_DIR", "CODE_DIR", "METRICS_FILE", "SECRETS_DIR", "LAUNCHER_DIR"),
        *("ARRAY_INDEX", "ARRAY_SIZE"),
        # In what runs in a terminal; in the example of how a service is called.
        *("TERMINAL", "APP_TOKEN"),
        # For the hook of the profiler.
        "IMAGE_PYTHONPATH",
        # Between the processes of launcher openmpi.
        *("GANG_KEY", "GANG_SOCKET_DIR"),
        # The beginnings of names.
        *("ARRAY", "CACHE", "PARAM", "VOLUME"),
    )
}


@pytest.mark.parametrize("text", ["-1", "a week", "1.5"])
def test_a_limit_that_cannot_be_meant_is_refused_by_name(text):
    wrong = f"TESSERA_LOG_RETENTION_DAYS={text!r} must be a whole number, 0 or more"
    with pytest.raises(ValueError, match=re.escape(wrong)):
        platform_from({"TESSERA_LOG_RETENTION_DAYS": text})


def test_settings_are_read_and_others_keep_their_defaults():
    platform = platform_from({"TESSERA_LOG_RETENTION_DAYS": "30", "HOME": "/root"})
    assert (platform.log_retention_days, platform.log_retention_mib) == (30, 0)


def test_every_default_is_of_a_kind_that_its_setting_takes():
    for one in settings_of(Platform):
        if one.default not in ("", ()):
            text = ",".join(one.default) if isinstance(one.default, tuple) else str(one.default)
            assert one.kind.parse(text) == one.default, one.name


def test_every_setting_that_the_code_names_is_declared():
    named = {
        word
        for folder in ("agents", "portal", "scheduler")
        for path in (ROOT / folder).rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
        for word in re.findall(r"(?<![_A-Z])TESSERA_[A-Z0-9_]*[A-Z0-9]", node.value)
    }
    assert len(named) > 40
    assert named - known_names() - OF_JOBS == set()


def test_each_setting_has_a_meaning_and_a_reader():
    for one in settings_of(Platform):
        assert one.help and one.readers, one.name
