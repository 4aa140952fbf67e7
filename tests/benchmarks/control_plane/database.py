"""The database as the benchmarks' witness: how far jobs are, what was executed, what must hold.

It is read in place of REST lists, which would load the very process that is measured. The reader
has a role of its own, so that its own statements are left out of every count.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Any, cast
from urllib.parse import urlsplit

import psycopg
from psycopg.rows import class_row

ROLE = "bench_reader"
# For PostgresServer: pg_stat_statements counts by statement.
SERVER_SETTINGS = ("shared_preload_libraries=pg_stat_statements", "pg_stat_statements.max=10000")
ENDED = ["succeeded", "failed", "cancelled", "timed_out"]
TRANSACTION_WORDS = ("BEGIN", "COMMIT", "ROLLBACK", "SAVEPOINT", "RELEASE")
# How the server itself checks a foreign key; no client has sent it.
FOREIGN_KEY_CHECK = "FOR KEY SHARE OF x"
# Of a statement that is printed.
TEXT_CHARACTERS = 160

LIVES = """
SELECT j.id AS job, j.uid::text AS uid, j.status, j.submitted_at, j.queued_at, a.created_at AS
    placed_at, r.started_at AS known_started_at, r.finished_at AS known_ended_at, j.finished_at,
    al.reserved_at, al.released_at, s.gpu_id::text AS gpu
FROM jobs_job j
LEFT JOIN jobs_attempt a ON a.job_id = j.id
LEFT JOIN jobs_replica r ON r.attempt_id = a.id
LEFT JOIN jobs_allocation al ON al.replica_id = r.id
LEFT JOIN inventory_slice s ON s.id = al.slice_id
WHERE j.id > %s ORDER BY j.id, a.number
"""
STATEMENTS = """
SELECT queryid, max(query), sum(calls)::bigint, sum(total_exec_time) FROM pg_stat_statements
WHERE dbid = (SELECT oid FROM pg_database WHERE datname = current_database())
  AND userid <> (SELECT oid FROM pg_roles WHERE rolname = current_user)
GROUP BY queryid
"""
TRANSACTIONS = "SELECT xact_commit FROM pg_stat_database WHERE datname = current_database()"

# What must be 0 when all jobs of a run have ended, by name. Each takes the id of the last job
# before the run.
BROKEN = {
    "jobs_not_succeeded": "SELECT count(*) FROM jobs_job WHERE id > %s AND status <> 'succeeded'",
    "jobs_tried_again": """
        SELECT count(*) FROM jobs_attempt WHERE job_id > %s AND number > 1""",
    "quota_units_used": """
        SELECT coalesce(sum(used_units), 0)::bigint FROM quotas_quota WHERE %s IS NOT NULL""",
    "live_allocations": """
        SELECT count(*) FROM jobs_allocation WHERE status <> 'released' AND %s IS NOT NULL""",
    "claims": "SELECT count(*) FROM inventory_slotclaim WHERE %s IS NOT NULL",
    "overlaps": """
        SELECT count(*) FROM (
            SELECT al.reserved_at, max(al.released_at) OVER (
                PARTITION BY s.gpu_id ORDER BY al.reserved_at, al.id
                ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS free_at
            FROM jobs_allocation al JOIN inventory_slice s ON s.id = al.slice_id
            JOIN jobs_replica r ON r.id = al.replica_id JOIN jobs_attempt a ON a.id = r.attempt_id
            WHERE a.job_id > %s) held
        WHERE reserved_at < free_at""",
    # Each change begins where the one before it ended, and the last one is where the row is.
    "broken_event_chains": """
        WITH chain AS (
            SELECT noun, noun_id, old, new, id,
                lag(new) OVER w AS before, lead(id) OVER w IS NULL AS is_last
            FROM audit_event
            WHERE (job_id > %s OR noun = 'slice') AND new <> ''
            WINDOW w AS (PARTITION BY noun, noun_id ORDER BY id))
        SELECT count(*) FROM chain
        LEFT JOIN jobs_job j ON noun = 'job' AND j.id::text = noun_id
        LEFT JOIN jobs_replica r ON noun = 'replica' AND r.id::text = noun_id
        LEFT JOIN jobs_allocation al ON noun = 'allocation' AND al.id::text = noun_id
        LEFT JOIN inventory_slice s ON noun = 'slice' AND s.id::text = noun_id
        WHERE before <> old
            OR (is_last AND new <> coalesce(j.status, r.status, al.status, s.status))""",
}


@dataclass(frozen=True, slots=True)
class JobLife:
    """A job as the portal has it. `known_…`: when a node's report of it was stored."""

    job: int
    uid: str
    status: str
    submitted_at: datetime
    queued_at: datetime | None
    placed_at: datetime | None
    known_started_at: datetime | None
    known_ended_at: datetime | None
    finished_at: datetime | None
    reserved_at: datetime | None
    released_at: datetime | None
    gpu: str | None


@dataclass(frozen=True, slots=True)
class Statement:
    """A statement without its values, how often it was executed, and how long in all."""

    text: str
    calls: int
    milliseconds: float

    @property
    def is_foreign_key_check(self) -> bool:
        return self.text.endswith(FOREIGN_KEY_CHECK)

    @property
    def ends_or_begins_transaction(self) -> bool:
        return self.text.split(maxsplit=1)[0].upper() in TRANSACTION_WORDS


@dataclass(frozen=True, slots=True)
class Executed:
    """What the database has executed so far for others."""

    by_id: dict[int, Statement]
    transactions: int

    def since(self, before: "Executed") -> "Executed":
        none = Statement("", 0, 0.0)
        by_id = {
            key: Statement(now.text, now.calls - was.calls, now.milliseconds - was.milliseconds)
            for key, now in self.by_id.items()
            if now.calls > (was := before.by_id.get(key, none)).calls
        }
        return Executed(by_id, self.transactions - before.transactions)

    def statements(self) -> int:
        """Those that clients sent, without the words that begin and end transactions."""
        return sum(one.calls for one in self._own())

    def foreign_key_checks(self) -> int:
        return sum(one.calls for one in self.by_id.values() if one.is_foreign_key_check)

    def explicit_transactions(self) -> int:
        return sum(one.calls for one in self.by_id.values() if one.text.upper().startswith("BEGIN"))

    def milliseconds(self) -> float:
        """Of execution, waiting for locks included."""
        return sum(one.milliseconds for one in self.by_id.values())

    def most_frequent(self, count: int, jobs: int) -> list[dict[str, Any]]:
        return [
            {
                "per_job": round(one.calls / jobs, 2),
                "ms_each": round(one.milliseconds / one.calls, 2),
                "text": " ".join(one.text.split())[:TEXT_CHARACTERS],
            }
            for one in sorted(self._own(), key=lambda one: -one.calls)[:count]
        ]

    def _own(self) -> list[Statement]:
        return [
            one
            for one in self.by_id.values()
            if not one.is_foreign_key_check and not one.ends_or_begins_transaction
        ]


class DatabaseReader:
    def __init__(self, connection: psycopg.Connection[Any]) -> None:
        self._connection = connection
        self._own_transactions = 0

    def last_job(self) -> int:
        return self.number("SELECT coalesce(max(id), 0) FROM jobs_job")

    def ended(self, after: int) -> int:
        """How many jobs behind this one have ended."""
        sentence = "SELECT count(*) FROM jobs_job WHERE id > %s AND status = ANY(%s)"
        return self.number(sentence, after, ENDED)

    def unended(self, after: int) -> int:
        sentence = "SELECT count(*) FROM jobs_job WHERE id > %s AND status <> ALL(%s)"
        return self.number(sentence, after, ENDED)

    def placed(self, after: int) -> int:
        sentence = "SELECT count(DISTINCT job_id) FROM jobs_attempt WHERE job_id > %s"
        return self.number(sentence, after)

    def held_devices(self) -> int:
        return self.number("SELECT count(*) FROM jobs_allocation WHERE status <> 'released'")

    def epochs(self) -> int:
        """Grows by one with each session of a node."""
        return self.number("SELECT sum(epoch)::bigint FROM inventory_node")

    def in_contact(self) -> int:
        """Nodes whose report of their last session is stored: a session begins without one, and
        the call that brought it is kept open."""
        return self.number("SELECT count(*) FROM inventory_node WHERE observed_hash <> ''")

    def now(self) -> datetime:
        ((now,),) = self._rows("SELECT clock_timestamp()")
        return cast(datetime, now)

    def swept_at(self) -> datetime | None:
        """When the last sweep was completed, whoever did it."""
        rows = self._rows("SELECT stamped_at FROM duties_duty WHERE name = 'sweep'")
        return rows[0][0] if rows else None

    def gpus(self) -> int:
        return self.number("SELECT count(*) FROM inventory_gpu")

    def last_event(self) -> int:
        return self.number("SELECT coalesce(max(id), 0) FROM audit_event")

    def lives(self, after: int) -> list[JobLife]:
        self._own_transactions += 1
        with self._connection.cursor(row_factory=class_row(JobLife)) as cursor:
            return cursor.execute(LIVES, (after,)).fetchall()

    def executed(self) -> Executed:
        rows = self._rows(STATEMENTS)
        by_id = {key: Statement(text, calls, ms) for key, text, calls, ms in rows}
        return Executed(by_id, self.number(TRANSACTIONS) - self._own_transactions)

    def broken(self, after: int) -> dict[str, int]:
        """How often each invariant is broken."""
        return {name: self.number(statement, after) for name, statement in BROKEN.items()}

    def number(self, statement: str, *values: object) -> int:
        """What a statement finds that has one row of one number."""
        ((number,),) = self._rows(statement, *values)
        return int(number)

    def _rows(self, statement: str, *values: object) -> list[tuple[Any, ...]]:
        self._own_transactions += 1
        return self._connection.execute(statement, values or None).fetchall()


@contextmanager
def database_reader(url: str) -> Iterator[DatabaseReader]:
    """`url`: of a database whose server was started with SERVER_SETTINGS."""
    with psycopg.connect(url, autocommit=True) as owner:
        if not owner.execute("SELECT 1 FROM pg_roles WHERE rolname = %s", (ROLE,)).fetchone():
            owner.execute(f"CREATE ROLE {ROLE} SUPERUSER LOGIN")
        owner.execute("CREATE EXTENSION IF NOT EXISTS pg_stat_statements")
    parts = urlsplit(url)
    own = parts._replace(netloc=f"{ROLE}@{parts.hostname}:{parts.port}").geturl()
    with psycopg.connect(own, autocommit=True) as connection:
        yield DatabaseReader(connection)
