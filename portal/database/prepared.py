"""Statements that PostgreSQL plans once for a session, and not each time they are asked.

To plan a join of nine tables takes it longer than to read the few rows. A statement is prepared by
the first call that asks it in a session; its plan is made for any values if one for the values at
hand is not better, and made anew after its tables were analysed or changed.
"""

from typing import Any, cast
from weakref import WeakKeyDictionary

import psycopg
import psycopg.sql
from django.db import connection

# Of one session; the one that was not asked for longest is forgotten.
PREPARED_TOGETHER = 200

Session = psycopg.Connection[Any]

_keeps: WeakKeyDictionary[Session, bool] = WeakKeyDictionary()


class PreparingCursor(psycopg.Cursor[Any]):
    def execute(self, query: Any, params: Any = None, **options: Any) -> "PreparingCursor":
        try:
            return super().execute(query, params, **options | {"prepare": True})
        except (psycopg.errors.FeatureNotSupported, psycopg.errors.InvalidSqlStatementName):
            # A column was given another type, or somebody has discarded the session's statements.
            self.connection.close()
            raise


def prepared_cursor() -> Any:
    """A cursor of Django's connection whose statements are prepared. Values are never part of the
    text, so each must have a type that PostgreSQL can tell.

    On SQLite, where a pooler gives each transaction another session, and where Django logs each
    statement with its values, as Django's own."""
    if connection.vendor != "postgresql" or connection.queries_logged:
        return connection.cursor()
    connection.ensure_connection()
    session = cast(Session, connection.connection)
    # A session whose server is gone fails as any statement does.
    with connection.wrap_database_errors:
        is_kept = outlives_transactions(session)
    if not is_kept:
        return connection.cursor()
    return cast(Any, connection)._prepare_cursor(PreparingCursor(session))


def outlives_transactions(session: Session) -> bool:
    """Whether what a transaction leaves in the session is there in the next one: asked once."""
    kept = _keeps.get(session)
    if kept is None:
        kept = _keeps[session] = is_session_own(session)
        if kept:
            # Django's own cursors, whose texts have values in them, are never prepared.
            session.prepare_threshold = session.prepared_max = PREPARED_TOGETHER
    return kept


def is_session_own(session: Session) -> bool:
    """False if a pooler is in between: it gives its clients numbers of its own, not that of the
    server's process."""
    row = session.execute("SELECT pg_backend_pid()").fetchone()
    return row is not None and row[0] == session.info.backend_pid


def literal(value: Any) -> str:
    """The value as part of a text, quoted, as Django's own cursors write it there."""
    connection.ensure_connection()
    return psycopg.sql.Literal(value).as_string(connection.connection)
