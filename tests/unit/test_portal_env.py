"""deploy/portal.env is read by systemd and, for `migrate`, by a shell: both must read the same."""

import subprocess
from pathlib import Path

import pytest

from portal.configuration.report import known_names

FILE = Path(__file__).resolve().parents[2] / "deploy" / "portal.env"
OF_THE_UNITS = {"LISTEN", "DJANGO_SETTINGS_MODULE"}


def read_by_systemd() -> dict[str, str]:
    """systemd.exec(5): a value may stand in quotes; nothing else of it is special here."""
    lines = FILE.read_text().splitlines()
    pairs = [line.split("=", 1) for line in lines if line and not line.startswith("#")]
    assert all("\\" not in value for _, value in pairs)
    return {name: value.strip("'") for name, value in pairs}


@pytest.fixture(scope="module")
def read_by_a_shell() -> dict[str, str]:
    words = ("env", "-i", "sh", "-c", f"set -a; . {FILE}; set +a; env -0")
    done = subprocess.run(words, capture_output=True, text=True, check=True, timeout=60)
    assert not done.stderr
    return dict(pair.split("=", 1) for pair in done.stdout.split("\0") if pair)


def test_a_shell_reads_what_systemd_reads(read_by_a_shell):
    expected = read_by_systemd()
    assert {name: read_by_a_shell.get(name) for name in expected} == expected


def test_it_has_only_settings_that_there_are():
    assert set(read_by_systemd()) <= known_names() | OF_THE_UNITS
