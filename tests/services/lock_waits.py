"""Whether anybody waits for a lock of the test's own PostgreSQL server."""

from django.db import connection


def waits_for_lock() -> bool:
    """Looks each time: within a transaction, pg_stat_activity stays as it was first read."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM pg_locks WHERE NOT granted")
        return cursor.fetchone()[0] > 0
