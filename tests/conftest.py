"""Loads the servers that tests may ask for, and takes the suite's temporary folder away."""

import shutil
import tempfile
from pathlib import Path

import pytest
from django.conf import settings

from portal.jobs import lately

pytest_plugins = [
    "tests.environment.levels",
    "tests.environment.postgres",
    "tests.environment.django_postgres",
    "tests.environment.redis",
    "tests.environment.docker_engine",
    "tests.environment.chromium",
]


@pytest.fixture(autouse=True)
def nothing_is_kept_of_another_tests_rows() -> None:
    """A worker keeps what it read of the past; every test has a database of its own."""
    lately.forget_all()


def pytest_unconfigure(config: pytest.Config) -> None:
    """portal.settings.test makes a folder per run; one that the caller named is kept."""
    var = Path(settings.PLATFORM.var)
    if var.parent == Path(tempfile.gettempdir()) and var.name.startswith("tessera-test-"):
        shutil.rmtree(var, ignore_errors=True)
