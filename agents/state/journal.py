"""The agent's durable memory: unacknowledged events, fences, failures, the last desired document.

SQLite with full synchronisation: every change is written down before it is made.
"""

import json
import sqlite3
import threading
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from agents.contract.calls import AgentEvent, EventType
from agents.contract.codec import decode, encode
from agents.contract.documents import DesiredDocument
from agents.contract.message import NO_MESSAGE, Message, read_message
from agents.contract.newer_documents import read_newer_desired
from agents.facts.ends import RunRecord, StopRecord
from agents.facts.failures import ReplicaFailure
from agents.facts.partitions import InstanceClaim
from agents.host.private_files import PRIVATE_FILE, make_private_file

SCHEMA = """
CREATE TABLE IF NOT EXISTS facts (name TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS events (seq INTEGER PRIMARY KEY AUTOINCREMENT, body TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS fences (job TEXT PRIMARY KEY, fence INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS failures (replica TEXT PRIMARY KEY, code TEXT, sentence TEXT);
CREATE TABLE IF NOT EXISTS failure_messages (replica TEXT PRIMARY KEY, message TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS started (replica TEXT PRIMARY KEY);
CREATE TABLE IF NOT EXISTS runs (
    replica TEXT PRIMARY KEY, boot TEXT NOT NULL, grace_seconds INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS stops (replica TEXT PRIMARY KEY, cause TEXT NOT NULL, at REAL NOT NULL);
CREATE TABLE IF NOT EXISTS own_ends (replica TEXT PRIMARY KEY);
CREATE TABLE IF NOT EXISTS shipped (replica TEXT PRIMARY KEY, offset INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS intents (id INTEGER PRIMARY KEY, at TEXT, what TEXT, done TEXT);
CREATE TABLE IF NOT EXISTS claims (
    gpu TEXT, start INTEGER, size INTEGER, profile TEXT, instance INTEGER, uuid TEXT NOT NULL,
    PRIMARY KEY (gpu, start, size));
"""
TABLES_OF_A_REPLICA = (
    "failures",
    "failure_messages",
    "started",
    "runs",
    "stops",
    "own_ends",
    "shipped",
)
MAX_EVENTS_PER_CALL = 200
# `user_version` of a file that holds no deleted values.
OVERWRITES_DELETED = 1


class JournalError(Exception):
    """The file cannot be used as a journal; the agent does not start."""


class Journal:
    """One file, one writer at a time. Raises JournalError if it cannot be opened."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._lock = threading.Lock()
        try:
            _make_private(path)
            self._db = _open(path)
            # Replicas whose environment is in the file.
            self._secretive = _with_environment(_stored_desired(self._db))
            # The same as the open transaction leaves it, and whether one was overwritten just now.
            self._secretive_next = self._secretive
            self._must_checkpoint = False
            # Intents that are done, and when; the next transaction writes it down.
            self._done: list[tuple[str, int]] = []
        except (sqlite3.Error, OSError) as error:
            sentence = f"{path} cannot be read as a journal: {error}"
            raise JournalError(sentence) from error

    def close(self) -> None:
        with self._lock:
            self._db.close()

    def record_event(
        self,
        kind: EventType,
        sentence: str = "",
        *,
        replica: str = "",
        fence: int = 0,
        data: dict[str, str] | None = None,
    ) -> None:
        """Append an event. It is sent again until the portal has acknowledged its number."""
        body = {
            "type": str(kind),
            "at": utc_now(),
            "replica": replica,
            "fence": fence,
            "sentence": wire_text(sentence),
            "data": data or {},
        }
        with self._write() as db:
            db.execute("INSERT INTO events (body) VALUES (?)", (json.dumps(body),))

    def unsent_events(self) -> tuple[AgentEvent, ...]:
        rows = self._rows("SELECT seq, body FROM events ORDER BY seq LIMIT ?", MAX_EVENTS_PER_CALL)
        return tuple(decode(AgentEvent, {"seq": seq} | json.loads(body)) for seq, body in rows)

    def acknowledge_events(self, seq: int) -> None:
        """Delete what the portal has. Most answers acknowledge nothing new: they write nothing."""
        if self._rows("SELECT 1 FROM events WHERE seq <= ? LIMIT 1", seq):
            with self._write() as db:
                db.execute("DELETE FROM events WHERE seq <= ?", (seq,))

    def skip_to(self, seq: int) -> None:
        """Number the next event above `seq`: a new journal must not reuse the portal's numbers."""
        with self._write() as db:
            (last,) = db.execute("SELECT COALESCE(MAX(seq), 0) FROM sqlite_sequence").fetchone()
            if last < seq:
                db.execute("INSERT OR REPLACE INTO sqlite_sequence VALUES ('events', ?)", (seq,))

    def fences(self) -> dict[str, int]:
        return dict(self._rows("SELECT job, fence FROM fences"))

    def failures(self) -> dict[str, ReplicaFailure]:
        rows = self._rows(
            "SELECT replica, code, sentence, message "
            "FROM failures LEFT JOIN failure_messages USING (replica)"
        )
        return {
            replica: ReplicaFailure(code, sentence, _read_message(message))
            for replica, code, sentence, message in rows
        }

    def record_failure(self, replica: str, failure: ReplicaFailure) -> None:
        values = (replica, failure.code, wire_text(failure.sentence))
        # A table of its own: an older agent on this journal writes the three columns of the other.
        message = (replica, json.dumps(failure.message.as_dict()))
        with self._write() as db:
            db.execute("INSERT OR REPLACE INTO failures VALUES (?, ?, ?)", values)
            db.execute("INSERT OR REPLACE INTO failure_messages VALUES (?, ?)", message)

    def started_replicas(self) -> frozenset[str]:
        return frozenset(row[0] for row in self._rows("SELECT replica FROM started"))

    def record_start(self, replica: str, run: RunRecord) -> None:
        """Write down that a replica is about to be started; only the first time counts."""
        # A table of its own: an older agent on this journal writes the one column of the other.
        with self._write() as db:
            db.execute("INSERT OR IGNORE INTO started VALUES (?)", (replica,))
            values = (replica, run.boot_id, run.grace_seconds)
            db.execute("INSERT OR IGNORE INTO runs VALUES (?, ?, ?)", values)

    def runs(self) -> dict[str, RunRecord]:
        """By replica, how it was started; without those that an older agent started."""
        rows = self._rows("SELECT replica, boot, grace_seconds FROM runs")
        return {replica: RunRecord(boot, grace) for replica, boot, grace in rows}

    def record_stop(self, replica: str, stop: StopRecord) -> None:
        """Write down why a replica is about to be stopped; the first cause wins."""
        with self._write() as db:
            values = (replica, str(stop.cause), stop.at)
            db.execute("INSERT OR IGNORE INTO stops VALUES (?, ?, ?)", values)

    def stops(self) -> dict[str, StopRecord]:
        rows = self._rows("SELECT replica, cause, at FROM stops")
        return {replica: StopRecord(cause, at) for replica, cause, at in rows}

    def record_own_end(self, replica: str) -> None:
        """Write down that nothing around a replica ended it, whatever happens to the node later."""
        with self._write() as db:
            db.execute("INSERT OR IGNORE INTO own_ends VALUES (?)", (replica,))

    def own_ends(self) -> frozenset[str]:
        return frozenset(row[0] for row in self._rows("SELECT replica FROM own_ends"))

    def shipped_offsets(self) -> dict[str, int]:
        """By replica, how many bytes of its log the portal has."""
        return dict(self._rows("SELECT replica, offset FROM shipped"))

    def record_shipped(self, offsets: Mapping[str, int]) -> None:
        """By replica, up to where the portal has its log."""
        with self._write() as db:
            db.executemany("INSERT OR REPLACE INTO shipped VALUES (?, ?)", offsets.items())

    def forget_replica(self, replica: str) -> None:
        """Delete all records of a replica that is neither desired nor on the node."""
        with self._write() as db:
            for table in TABLES_OF_A_REPLICA:
                db.execute(f"DELETE FROM {table} WHERE replica = ?", (replica,))  # noqa: S608 - fixed names

    def record_intent(self, what: str) -> int:
        """Write down a change before it is made. Returns its number, for `complete_intent`."""
        with self._write() as db:
            cursor = db.execute("INSERT INTO intents (at, what) VALUES (?, ?)", (utc_now(), what))
            return int(cursor.lastrowid or 0)

    def complete_intent(self, intent: int) -> None:
        """Note that the change was made; written down with the next change of the journal. After a
        crash before that, the intent is open, as after one before this call."""
        with self._lock:
            self._done.append((utc_now(), intent))

    def claims(self) -> list[InstanceClaim]:
        """The MIG instances that the agent created, or was about to."""
        rows = self._rows("SELECT gpu, start, size, profile, instance, uuid FROM claims")
        return [InstanceClaim(*row) for row in rows]

    def record_claims(self, claims: Iterable[InstanceClaim]) -> None:
        """Write claims down; each replaces an earlier one at its place."""
        values = [(c.gpu_uuid, c.start, c.size, c.profile, c.instance_id, c.uuid) for c in claims]
        with self._write() as db:
            db.executemany("INSERT OR REPLACE INTO claims VALUES (?, ?, ?, ?, ?, ?)", values)

    def remove_claim(self, gpu_uuid: str, start: int, size: int) -> None:
        """The agent has no instance at this place any more."""
        with self._write() as db:
            place = (gpu_uuid, start, size)
            db.execute("DELETE FROM claims WHERE gpu = ? AND start = ? AND size = ?", place)

    def desired(self) -> DesiredDocument | None:
        """The last one; a newer agent may have stored it."""
        text = self.fact("desired")
        return read_newer_desired(json.loads(text)) if text else None

    def store_desired(self, desired: DesiredDocument) -> None:
        """Write down the document, and the highest fence of each job, which never decreases."""
        raise_fence = (
            "INSERT INTO fences VALUES (?, ?) ON CONFLICT (job) "
            "DO UPDATE SET fence = max(fence, excluded.fence)"
        )
        with self._write() as db:
            db.executemany(raise_fence, [(r.job, r.fence) for r in desired.replicas])
            self._replace_desired(db, encode(desired))

    def forget_environments(self, ended: Collection[str]) -> None:
        """Delete the environment of replicas that have ended, from the file and from its WAL: it
        may hold secrets, and they run no more."""
        if self._secretive.isdisjoint(ended):
            return
        with self._write() as db:
            document = _stored_desired(db)
            for replica in document["replicas"]:
                if replica["id"] in ended:
                    replica["env"] = {}
            self._replace_desired(db, document)

    def _replace_desired(self, db: sqlite3.Connection, document: dict[str, Any]) -> None:
        db.execute("INSERT OR REPLACE INTO facts VALUES ('desired', ?)", (json.dumps(document),))
        self._secretive_next = _with_environment(document)

    def fact(self, name: str) -> str:
        for (value,) in self._rows("SELECT value FROM facts WHERE name = ?", name):
            return str(value)
        return ""

    def store_fact(self, name: str, value: str) -> None:
        with self._write() as db:
            db.execute("INSERT OR REPLACE INTO facts VALUES (?, ?)", (name, value))

    def _rows(self, statement: str, *values: Any) -> list[tuple[Any, ...]]:
        with self._lock:
            return self._db.execute(statement, values).fetchall()

    @contextmanager
    def _write(self) -> Iterator[sqlite3.Connection]:
        with self._lock:
            self._db.execute("BEGIN IMMEDIATE")
            self._secretive_next = self._secretive
            try:
                _complete(self._db, self._done)
                yield self._db
                self._db.execute("COMMIT")
            except BaseException:
                # A COMMIT that failed may have ended the transaction.
                if self._db.in_transaction:
                    self._db.execute("ROLLBACK")
                raise
            self._must_checkpoint |= bool(self._secretive - self._secretive_next)
            self._done, self._secretive = [], self._secretive_next
            if self._must_checkpoint:
                self._db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
                self._must_checkpoint = False


def _complete(db: sqlite3.Connection, done: list[tuple[str, int]]) -> None:
    if done:
        db.executemany("UPDATE intents SET done = ? WHERE id = ?", done)
        db.execute("DELETE FROM intents WHERE id < ?", (done[-1][1] - 1_000,))


def _read_message(text: str | None) -> Message:
    """Empty if an agent without messages recorded the failure."""
    stored = read_message(json.loads(text)) if text else None
    return stored or NO_MESSAGE


def _make_private(path: Path) -> None:
    """Close the file to others. SQLite gives new files beside it the same mode."""
    make_private_file(path)
    for beside in (f"{path.name}-wal", f"{path.name}-shm"):
        with suppress(FileNotFoundError):
            path.with_name(beside).chmod(PRIVATE_FILE)


def _stored_desired(db: sqlite3.Connection) -> dict[str, Any]:
    """As JSON; empty if there is none."""
    row = db.execute("SELECT value FROM facts WHERE name = 'desired'").fetchone()
    return dict(json.loads(row[0])) if row and row[0] else {}


def _with_environment(document: dict[str, Any]) -> frozenset[str]:
    """The replicas of a desired document that have variables of their own."""
    return frozenset(r["id"] for r in document.get("replicas", ()) if r.get("env"))


def _open(path: Path) -> sqlite3.Connection:
    db = sqlite3.connect(path, check_same_thread=False, isolation_level=None)
    try:
        db.execute("PRAGMA journal_mode=WAL")
        db.execute("PRAGMA synchronous=FULL")
        # What is deleted is overwritten; a checkpoint carries that from the WAL into the file.
        db.execute("PRAGMA secure_delete=ON")
        db.executescript(SCHEMA)
        _clean(db)
        (result,) = db.execute("PRAGMA quick_check(1)").fetchone()
        if result != "ok":
            raise sqlite3.DatabaseError(" ".join(result.split()))
    except BaseException:
        db.close()
        raise
    return db


def _clean(db: sqlite3.Connection) -> None:
    """Remove deleted values that an agent left: in the WAL when it was killed, in unused pages if
    it was of a version that did not overwrite them."""
    (version,) = db.execute("PRAGMA user_version").fetchone()
    if version < OVERWRITES_DELETED:
        db.execute("VACUUM")
        db.execute(f"PRAGMA user_version={OVERWRITES_DELETED}")
    db.execute("PRAGMA wal_checkpoint(TRUNCATE)")


def utc_now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")


def wire_text(sentence: str, limit: int = 1_000) -> str:
    """A sentence fit for the wire: no control characters, no lone surrogates, limited length."""
    printable = (c if c.isprintable() else " " for c in sentence)
    return "".join(printable).encode("utf-8", "replace").decode()[:limit]
