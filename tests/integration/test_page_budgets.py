"""No page asks the database more often than its budget, nor more often when there are more rows.

Budgets stand in page_budgets.json beside this file; `BUDGETS=write` writes what is measured now.
"""

import json
import os
from datetime import timedelta
from pathlib import Path

import pytest
from django.core.management import call_command
from django.db import connection
from django.test.utils import CaptureQueriesContext

from portal.demo.scale import ClusterSize
from portal.planning import history_cache, snapshot_cache
from tests.support.pages import PAGES, REST, address, gone, unlisted
from tests.support.scale_rows import client_of, known, seeded

pytestmark = pytest.mark.django_db(transaction=True)
FILE = Path(__file__).with_name("page_budgets.json")
MOST = 20
PASSWORD = "a long password of nobody"
SMALL = ClusterSize(jobs=150, nodes=8, users=12, projects=3)
LARGE = ClusterSize(jobs=900, nodes=60, users=60, projects=12)


@pytest.fixture
def caches_that_do_not_age(monkeypatch):
    """On a slow machine the cached snapshot would run out between the two looks at a page."""
    monkeypatch.setattr(snapshot_cache, "MAX_AGE_SECONDS", 86_400)
    monkeypatch.setattr(snapshot_cache, "LARGE_MAX_AGE_SECONDS", 86_400)
    monkeypatch.setattr(history_cache, "MAX_AGE", timedelta(days=1))


def counted() -> dict[str, int]:
    """Queries by page, of the second look: the first one fills what a process keeps."""
    words = known()
    asked = {name: (page.as_user, address(name, words)) for name, page in PAGES.items()}
    asked |= {path: ("alice", path.format(**words)) for path in REST}
    found, broken = {}, {}
    for name, (who, path) in asked.items():
        status, found[name] = _queries(who, path)
        if status != 200:
            broken[f"{path} as {who or 'nobody'}"] = status
    assert not broken, broken
    return found


def _queries(who: str, path: str) -> tuple[int, int]:
    client = client_of(who)
    status = client.get(path).status_code
    with CaptureQueriesContext(connection) as queries:
        client.get(path)
    return status, len(queries)


def test_every_address_is_a_listed_page_or_excused():
    assert unlisted() == set(), "list it in tests/support/pages.py, or say there why it is no page"
    assert gone() == set()


def test_every_page_keeps_its_budget_of_queries_whatever_the_number_of_rows(
    caches_that_do_not_age,
):
    seeded(SMALL, password=PASSWORD)
    small = counted()
    call_command("flush", verbosity=0, interactive=False)
    seeded(LARGE, password=PASSWORD)
    large = counted()
    if os.environ.get("BUDGETS") == "write":
        room = {name: count + (count + 1 < MOST) for name, count in sorted(large.items())}
        FILE.write_text(json.dumps(room, indent=1) + "\n")
    budgets = json.loads(FILE.read_text())
    missing = set(large) - set(budgets)
    assert not missing, f"no budget for {sorted(missing)}: set it in {FILE.name}"
    over = {name: (large[name], most) for name, most in budgets.items() if large[name] > most}
    assert not over, f"(queries, budget) of {over}"
    grown = {name: (small[name], large[name]) for name in large if large[name] > small[name] + 1}
    assert not grown, f"queries grow with rows: {grown}"


def test_every_budget_is_below_what_the_project_allows():
    budgets = json.loads(FILE.read_text())
    assert not {name for name, most in budgets.items() if most >= MOST}
