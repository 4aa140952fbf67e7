"""Security events: refused sign-ins, tokens, nodes and calls, as lines of the audit trail.

Strangers cause them, so their number is bounded: one line for each kind, address and minute, with
how often it happened. Within a process the count is written at 1, 2, 4, 8, …, and the rest with the
first refusal after the minute, so a flood of refusals is a handful of writes; beyond
`MAX_ADDRESSES` addresses in a minute the rest share one line.
"""

import logging
import threading
import time
from typing import Any

from django.db import Error, IntegrityError, transaction
from django.db.models import F
from django.utils import timezone

from portal.audit.codes import AuditAction
from portal.audit.models import AuditEntry
from portal.client_address import address_network, client_address
from portal.request_id import audited_request_id

# Lines of one kind in one minute and process.
MAX_ADDRESSES = 100
# The address of the line that the others share.
OTHERS = "*"
ANONYMOUS = "anonymous"

log = logging.getLogger(__name__)

Key = tuple[int, str, str]


class RefusalCounter:
    """Counts of this minute by kind and address, and how many of them are not written yet."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts: dict[Key, int] = {}
        self._written: dict[Key, int] = {}

    def count(self, action: AuditAction, address: str) -> list[tuple[Key, int]]:
        """Count one; returns what is to be written now: lines, and by how much they grow."""
        minute = int(time.time() // 60)
        with self._lock:
            due = self._unwritten_before(minute)
            key = self._key(minute, action, address)
            count = self._counts[key] = self._counts.get(key, 0) + 1
            if count & (count - 1) == 0:
                due.append((key, count - self._written.get(key, 0)))
                self._written[key] = count
            return due

    def clear(self) -> None:
        with self._lock:
            self._counts.clear()
            self._written.clear()

    def _key(self, minute: int, action: AuditAction, address: str) -> Key:
        key = (minute, str(action), address)
        if key in self._counts:
            return key
        others = sum(1 for _, kind, _ in self._counts if kind == action)
        return key if others < MAX_ADDRESSES else (minute, str(action), OTHERS)

    def _unwritten_before(self, minute: int) -> list[tuple[Key, int]]:
        over = [key for key in self._counts if key[0] != minute]
        due = [(key, self._counts.pop(key) - self._written.pop(key, 0)) for key in over]
        return [(key, number) for key, number in due if number]


_counter = RefusalCounter()


def security_event_record(
    action: AuditAction,
    *,
    noun: str,
    noun_id: str = "",
    reason: str = "",
) -> None:
    """Record that somebody was refused. Never raises: the refusal is what matters.

    `noun_id`: a name that exists, never one that a stranger typed; people type passwords there.
    """
    refusals_write(refusal_count(action), noun=noun, noun_id=noun_id, reason=reason)


def refusal_count(action: AuditAction) -> list[tuple[Key, int]]:
    """Count a refusal, without a query. Returns the lines that are due, for `refusals_write`."""
    return _counter.count(action, address_network(client_address()))


def refusals_write(
    lines: list[tuple[Key, int]], *, noun: str, noun_id: str = "", reason: str = ""
) -> None:
    """Write the lines that are due. Never raises."""
    for key, number in lines:
        log.warning("%s from %s: %s more", key[1], key[2] or "a socket", number)
        try:
            _write(key, number, noun, noun_id[:64], reason)
        except Error as error:
            log.warning("a security event was not written: %s", error)


def forget_refusals() -> None:
    """Begin to count anew; for tests, each of which has a database of its own."""
    _counter.clear()


def _write(key: Key, number: int, noun: str, noun_id: str, reason: str) -> None:
    minute, action, address = key
    rows = AuditEntry.objects.filter(minute=minute, action=action, address=address)
    if rows.update(occurrences=F("occurrences") + number):
        return
    columns: dict[str, Any] = {
        "at": timezone.now(),
        "actor": ANONYMOUS,
        "noun": noun,
        "noun_id": noun_id,
        "after": {"reason": reason} if reason else {},
        "request_id": audited_request_id(),
        "occurrences": number,
    }
    try:
        with transaction.atomic():
            AuditEntry.objects.create(minute=minute, action=action, address=address, **columns)
    except IntegrityError:
        # Another process was first.
        rows.update(occurrences=F("occurrences") + number)
