"""PostgreSQL finds the interval of a moment by a function of its own; SQLite by comparisons."""

from datetime import UTC, datetime, timedelta

import pytest

from portal.accounts.models import User
from portal.database.intervals import edge_index

pytestmark = pytest.mark.services

FIRST = datetime(2026, 3, 1, tzinfo=UTC)
EDGES = [FIRST + timedelta(days=n) for n in range(4)]
MOMENT = timedelta(microseconds=1)


@pytest.mark.usefixtures("postgres_django")
def test_a_moment_lies_behind_the_edges_at_or_before_it():
    moments = [*EDGES, *(edge - MOMENT for edge in EDGES), EDGES[-1] + MOMENT, None]
    for number, at in enumerate(moments):
        User.objects.create(username=f"u{number}", last_login=at)
    placed = User.objects.order_by("pk").annotate(place=edge_index("last_login", EDGES))
    expected = [sum(edge <= at for edge in EDGES) if at else len(EDGES) for at in moments]
    assert list(placed.values_list("place", flat=True)) == expected
