"""Loads the fixtures of all servers, and clears caches between tests."""

from math import inf

import pytest
from django.utils import translation

from portal.audit.security_events import forget_refusals
from portal.images import needs_cache
from portal.live import pending
from portal.planning import history_cache, inventory_view, node_cache, snapshot_cache
from portal.storage.stores import forget_stores
from scheduler import tasks
from scheduler.commit.notices import notice_pace
from scheduler.tasks import estimate_pace
from tests.support.examples import register_profiles

register_profiles()

# A test says when a sweep is, however long a pass takes on a busy machine.
tasks.WITHOUT_SWEEP_SECONDS = inf

pytest_plugins = [
    "tests.environment.levels",
    "tests.environment.workers",
    "tests.environment.django_sqlite",
    "tests.environment.postgres",
    "tests.environment.django_postgres",
    "tests.environment.pgbouncer",
    "tests.environment.object_store",
    "tests.environment.redis",
    "tests.environment.docker_engine",
    "tests.environment.machines",
    "tests.environment.chromium",
]


@pytest.fixture(autouse=True)
def clear_caches() -> None:
    """A process remembers what it read from the database, and every test has its own database. A
    thread remembers the language of its last page."""
    history_cache.clear_all()
    node_cache.clear_all()
    snapshot_cache.clear()
    inventory_view.clear()
    needs_cache.clear()
    estimate_pace.reset()
    notice_pace.reset()
    pending.forget_files()
    forget_stores()
    forget_refusals()
    translation.deactivate()
