"""How a worker claims a lease: on PostgreSQL by a lock that ends with its connection, on SQLite by
the lease's row and the clock of the database."""

import hashlib
import logging
import os
import time
import uuid
from collections import defaultdict
from datetime import timedelta
from typing import Any, Protocol

import psycopg
from django.conf import settings
from django.db import connection
from django.db.models import Q
from django.db.models.functions import Now

from portal.database.prepared import is_session_own
from portal.leases.models import TaskLease

# On SQLite: how long the lease of a worker that died is still held.
LEASE_DURATION = timedelta(seconds=60)
CONNECT_SECONDS = 5
# A worker whose clock is further off than this does nothing under a lease: it would judge deadlines
# and the silence of nodes by it. Below the margin of nodes' leases (TESSERA_LEASE_MARGIN_SECONDS).
MAX_SKEW_SECONDS = 10.0
SKEW_LOGGED_SECONDS = 60.0
# The server ends the session of a machine that is gone within 5 + 3 * 5 s, and no session for
# having nothing to do.
SESSION_SETTINGS = {
    "application_name": "tessera lease",
    "tcp_keepalives_idle": "5",
    "tcp_keepalives_interval": "5",
    "tcp_keepalives_count": "3",
    "idle_session_timeout": "0",
}
# An older server does not know all of them.
SET_CONFIG = """
    SELECT set_config(known.name, wanted.setting, false)
    FROM unnest(%s::text[], %s::text[]) AS wanted (name, setting)
    JOIN pg_settings AS known ON known.name = wanted.name
"""

LOCK = "SELECT pg_try_advisory_lock(%s), extract(epoch FROM clock_timestamp())::float8"
UNLOCK = "SELECT pg_advisory_unlock(%s)"

Session = psycopg.Connection[Any]

log = logging.getLogger(__name__)


class PooledSessionError(RuntimeError):
    """Workers reach PostgreSQL through a pooler, where a session is not theirs."""


class WrongClockError(RuntimeError):
    """This machine's clock is off that of the database: no lease is for its workers."""


class Claim(Protocol):
    """One worker's claim on one lease."""

    def take(self) -> bool:
        """False if another worker holds the lease. WrongClockError if this one must not have it."""
        ...

    def give_back(self) -> None:
        """Does nothing if the lease is not held. Needs nothing of the work's own connection."""
        ...


def lease_claim(name: str) -> Claim:
    return SessionClaim(name) if connection.vendor == "postgresql" else RowClaim(name)


class SessionClaim:
    """An advisory lock on a connection of its own. PostgreSQL frees it when the worker dies."""

    def __init__(self, name: str) -> None:
        digest = hashlib.blake2b(f"tessera lease {name}".encode(), digest_size=8).digest()
        self._key = int.from_bytes(digest, signed=True)
        self._name = name
        self._session: Session | None = None

    def take(self) -> bool:
        try:
            is_taken = self._lock_idle()
            if is_taken is None:
                self._session = _connect()
                is_taken = self._lock(self._session)
        except WrongClockError:
            self._put_back()
            raise
        if not is_taken:
            self._put_back()
        return is_taken

    def give_back(self) -> None:
        if self._session is None:
            return
        try:
            is_unlocked = _value(self._session, UNLOCK, self._key)
        except BaseException as error:
            # The lock ends with the connection. Anything may be raised here, such as a time limit.
            self._session.close()
            self._session = None
            if not isinstance(error, psycopg.OperationalError):
                raise
            log.warning("the lease %s ended with its connection: %s", self._name, error)
        else:
            self._put_back()
            if not is_unlocked:
                log.error("the lease %s was not held any more when it was given back", self._name)

    def _lock_idle(self) -> bool | None:
        """Whether the lease was taken on an idle session; None if there is none. One that has lain
        idle may be broken."""
        while session := _sessions.take():
            self._session = session
            try:
                return self._lock(session)
            except psycopg.OperationalError as error:
                log.info("a connection for leases is renewed: %s", error)
                session.close()
                self._session = None
        return None

    def _lock(self, session: Session) -> bool:
        question_at = time.time()
        is_locked, database_time = session.execute(LOCK, [self._key]).fetchone() or (False, 0.0)
        if not is_locked:
            return False
        skew = clock_skew(question_at, database_time, time.time())
        if abs(skew) <= MAX_SKEW_SECONDS:
            return True
        session.execute(UNLOCK, [self._key])
        _skew_log(skew)
        raise WrongClockError

    def _put_back(self) -> None:
        if self._session:
            _sessions.put(self._session)
        self._session = None


class RowClaim:
    """The lease's row, with a random token, until the database's clock says that it is over."""

    def __init__(self, name: str) -> None:
        self._row = TaskLease.objects.filter(name=name)
        self._token = str(uuid.uuid4())

    def take(self) -> bool:
        free = Q(expires_at__isnull=True) | Q(expires_at__lt=Now())
        until = Now() + LEASE_DURATION
        return self._row.filter(free).update(token=self._token, expires_at=until) == 1

    def give_back(self) -> None:
        self._row.filter(token=self._token).update(token="", expires_at=None)


class _IdleSessions:
    """Sessions of this process that hold no lock, by database. A lock needs a session of its own:
    two claims on one would both succeed."""

    def __init__(self) -> None:
        self._by_database: dict[str, list[Session]] = defaultdict(list)
        # A forked process must not use, or end, the sessions of its parent.
        os.register_at_fork(after_in_child=self._by_database.clear)

    def take(self) -> Session | None:
        idle = self._by_database[_database()]
        return idle.pop() if idle else None

    def put(self, session: Session) -> None:
        self._by_database[_database()].append(session)


_sessions = _IdleSessions()


def clock_skew(question_at: float, database_time: float, answer_at: float) -> float:
    """By how many seconds this machine's clock is ahead of the database's, at least; negative if it
    is behind. 0 if the database's time lies between question and answer."""
    return max(question_at - database_time, 0.0) or min(answer_at - database_time, 0.0)


def _skew_log(skew: float) -> None:
    global _skew_logged_at
    if time.monotonic() - _skew_logged_at >= SKEW_LOGGED_SECONDS:
        _skew_logged_at = time.monotonic()
        log.error(
            "the clock of this machine is %+.0f s off that of the database, so this worker plans"
            " and sweeps nothing: set the clock (chrony)",
            skew,
        )


_skew_logged_at = -SKEW_LOGGED_SECONDS


def _database() -> str:
    own = connection.settings_dict
    return settings.PLATFORM.direct_database_url or f"{own['HOST']}:{own['PORT']}/{own['NAME']}"


def _connect() -> Session:
    direct = settings.PLATFORM.direct_database_url
    parameters = {"conninfo": direct} if direct else connection.get_connection_params()
    options = {"autocommit": True, "connect_timeout": CONNECT_SECONDS}
    session: Session = psycopg.connect(**parameters | options)
    try:
        _require_direct(session)
        session.execute(SET_CONFIG, [list(SESSION_SETTINGS), list(SESSION_SETTINGS.values())])
    except BaseException:
        session.close()
        raise
    return session


def _require_direct(session: Session) -> None:
    if not is_session_own(session):
        raise PooledSessionError(
            "Workers plan under a lock of their own session, and the database is reached through a "
            "pooler such as PgBouncer: set TESSERA_DIRECT_DATABASE_URL to PostgreSQL's own address."
        )


def _value(session: Session, statement: str, *parameters: object) -> Any:
    row = session.execute(statement, parameters).fetchone()
    return row[0] if row else None
