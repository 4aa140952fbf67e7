"""Backup and restore on PostgreSQL, with the programs of its version."""

from pathlib import Path

import pytest

from tests.support.restores import assert_three_more_jobs_and_a_restore

pytestmark = [pytest.mark.services, pytest.mark.slow, pytest.mark.usefixtures("postgres_django")]


def test_three_more_jobs_and_a_restore(tmp_path: Path):
    assert_three_more_jobs_and_a_restore(tmp_path / "tessera.tar")
