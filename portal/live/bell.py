"""Ring bells on commit: for workers to plan or drive, and for open long polls and streams.

A ring may be lost. A waiter reads the database again after a timeout, and the sweep plans and
drives anyway. Rings of planning, and of driving one node, send one task until that is begun.
"""

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import cache
from uuid import UUID

import redis
from django.conf import settings
from django.db import transaction
from kombu.exceptions import OperationalError as BrokerError

from portal.celery import app
from portal.live import pending, sockets
from portal.metrics import LOST_RINGS
from portal.request_id import audited_request_id

CHANNEL = "tessera:bell"
# Bells of one transaction are one message: each process that listens reads every message.
SEPARATOR = " "
KEYS_TOGETHER = 200
# The key of what people read about all waiting jobs: reasons, positions, estimates. A ring for each
# of them would be thousands at a time.
QUEUE = "queue"
PLAN_TASK = "scheduler.tasks.plan"
DRIVE_TASK = "scheduler.tasks.drive"
SITE_TASK = "scheduler.tasks.site"
ESTIMATES_TASK = "scheduler.tasks.foretell"
DIAGNOSES_TASK = "scheduler.tasks.diagnose"
SERVICES_TASK = "scheduler.tasks.services"
NOTICES_TASK = "portal.notices.tasks.deliver"
WHAT_IF_TASK = "portal.what_if.tasks.carry_out"
REQUEST_HEADER = "tessera_request_id"
# A web process that does not take a ring within this time learns of it by its own timeout.
RING_TIMEOUT_SECONDS = 0.2

log = logging.getLogger(__name__)


@dataclass(slots=True)
class GatheredRings:
    """The rings of a piece of work, each once."""

    driven: UUID
    """The node whose desired document the caller compiles itself."""
    is_drive_due: bool = False
    """Whether that was rung."""
    keys: set[str] = field(default_factory=set)
    nodes: set[UUID] = field(default_factory=set)
    plans: bool = False


class KeptRings:
    """The bells of one transaction, each rung once after its commit, in one message."""

    def __init__(self, key: str) -> None:
        self.keys = {key: None}
        # What Django names in its log if the work fails.
        self.__qualname__ = type(self).__qualname__

    def __call__(self) -> None:
        _ring(tuple(self.keys))


_gathered: ContextVar[GatheredRings | None] = ContextVar("gathered_rings", default=None)


@contextmanager
def gather_rings(*, driven: UUID) -> Iterator[GatheredRings]:
    """Gather what is rung within, and ring it after the commit: each bell once, and none to drive
    the node `driven`, for a caller that does so in the same transaction. Nothing is rung if the
    block fails."""
    gathered = GatheredRings(driven)
    token = _gathered.set(gathered)
    try:
        yield gathered
    finally:
        _gathered.reset(token)
    for key in sorted(gathered.keys):
        ring(key)
    if gathered.nodes:
        ring_drive(sorted(gathered.nodes))
    if gathered.plans:
        ring_plan()


def ring(key: str) -> None:
    """Wake the waiters for `key` ("node:<uuid>", "job:<pk>", "cluster") after the commit."""
    if gathered := _gathered.get():
        gathered.keys.add(key)
        return
    if kept := _rings_of_transaction():
        kept.keys[key] = None
    else:
        # Outside a transaction it is rung at once.
        _on_commit(KeptRings(key))


def _rings_of_transaction() -> KeptRings | None:
    """Those that are rung when the transaction commits, unless its savepoint is rolled back."""
    connection = transaction.get_connection()
    savepoints = set(connection.savepoint_ids)
    for of_savepoints, work, *_ in reversed(connection.run_on_commit):
        if isinstance(work, KeptRings) and of_savepoints == savepoints:
            return work
    return None


def ring_plan(*, repeat: bool = False) -> None:
    """Start a planning pass after the commit, unless one is on its way. `repeat`: even then, as its
    task may be lost; one too many does nothing."""
    gathered = _gathered.get()
    if gathered and not repeat:
        gathered.plans = True
        return
    _on_commit(lambda: _send_once(PLAN_TASK, repeat=repeat))


def answer_plan() -> bool:
    """Whether a pass was rung since the last one began. A ring from now on starts another: call
    this before reading rows."""
    return pending.take(_pending_key(PLAN_TASK))


def renew_plan() -> None:
    """A pass is due again, for a task that is at work: no other one is sent."""
    pending.renew(_pending_key(PLAN_TASK))


def is_plan_rung() -> bool:
    """Whether a pass is on its way: what it begins with need not be done now."""
    return pending.is_marked(_pending_key(PLAN_TASK))


def ring_estimates() -> None:
    """Start the estimation of start times after the commit."""
    _on_commit(lambda: _send(ESTIMATES_TASK))


def ring_diagnoses() -> None:
    """Start diagnosing failed jobs after the commit, unless that is on its way."""
    _on_commit(lambda: _send_once(DIAGNOSES_TASK))


def answer_diagnoses() -> None:
    """A ring from now on starts another task: call this before reading rows."""
    pending.take(_pending_key(DIAGNOSES_TASK))


def ring_services() -> None:
    """Start a round over the services after the commit, unless one is on its way."""
    _on_commit(lambda: _send_once(SERVICES_TASK))


def answer_services() -> None:
    """A ring from now on starts another task: call this before reading rows."""
    pending.take(_pending_key(SERVICES_TASK))


def ring_notices() -> None:
    """Start another round of notices after the commit, unless one is on its way."""
    _on_commit(lambda: _send_once(NOTICES_TASK))


def answer_notices() -> bool:
    """Whether a round was rung since the last one began; the clock starts others unrung."""
    return pending.take(_pending_key(NOTICES_TASK))


def ring_what_if(what_if: int) -> None:
    """Start a what-if replay after the commit."""
    _on_commit(lambda: _send(WHAT_IF_TASK, str(what_if)))


def ring_drive(node_ids: Iterable[UUID], *, repeat: bool = False) -> None:
    """Start compiling the desired documents of these nodes after the commit, each unless that is on
    its way. `repeat`: even then, as its task may be lost."""
    gathered = _gathered.get()
    if gathered and not repeat:
        nodes = set(node_ids)
        gathered.is_drive_due |= gathered.driven in nodes
        gathered.nodes |= nodes - {gathered.driven}
        return
    names = [str(node_id) for node_id in node_ids]
    _on_commit(lambda: _drive_each(names, repeat))


def answer_drive(node_id: str) -> None:
    """A ring of this node from now on starts another task: call this before reading rows."""
    pending.take(_pending_key(DRIVE_TASK, node_id))


def ring_site(name: str) -> None:
    """Start a round with the site `name` after the commit."""
    _on_commit(lambda: _send(SITE_TASK, name))


def _on_commit(work: Callable[[], object]) -> None:
    """A failing bell does not undo the commit: Django logs the failure and goes on.

    Pass what has a `__qualname__`, so never a partial: Django logs that of what failed.
    """
    transaction.on_commit(work, robust=True)


def _ring(keys: Sequence[str]) -> None:
    platform = settings.PLATFORM
    if not platform.redis_url:
        for key in keys:
            sockets.send_ring(sockets.bell_folder(platform.var), key, RING_TIMEOUT_SECONDS)
        return
    for first in range(0, len(keys), KEYS_TOGETHER):
        together = keys[first : first + KEYS_TOGETHER]
        try:
            _publisher(platform.redis_url).publish(CHANNEL, SEPARATOR.join(together))
        except (redis.RedisError, OSError) as error:
            LOST_RINGS.labels("bell").inc(len(together))
            log.warning("%s bells were not rung, such as %s: %s", len(together), together[0], error)


def _send_once(name: str, *arguments: str, repeat: bool = False) -> None:
    """Send the task, unless one with these arguments is on its way."""
    key = _pending_key(name, *arguments)
    if repeat:
        pending.renew(key)
    elif not pending.mark(key):
        return
    if not _send(name, *arguments):
        # The next ring tries again.
        pending.take(key)


def _pending_key(name: str, *arguments: str) -> str:
    return ":".join((name.rpartition(".")[2], *arguments))


def _send(name: str, *arguments: str) -> bool:
    """False if the broker did not take it."""
    if app.conf.task_always_eager and name not in app.tasks:
        # The portal does not import the tasks; they must be known only where they run eagerly. Each
        # import comes with Django's checks of all models.
        app.loader.import_default_modules()
    # So that the worker's log lines name the request as well.
    options = {"retry": False, "headers": {REQUEST_HEADER: audited_request_id()}}
    try:
        if name in app.tasks:
            app.tasks[name].apply_async(args=arguments, **options)
        else:
            app.send_task(name, args=arguments, **options)
    except (BrokerError, redis.RedisError, OSError) as error:
        LOST_RINGS.labels("task").inc()
        log.warning("task %s was not rung: %s", name, error)
        return False
    return True


def _drive_each(names: list[str], repeat: bool) -> None:
    for name in names:
        _send_once(DRIVE_TASK, name, repeat=repeat)


@cache
def _publisher(url: str) -> redis.Redis:
    return redis.Redis.from_url(
        url, socket_timeout=RING_TIMEOUT_SECONDS, socket_connect_timeout=RING_TIMEOUT_SECONDS
    )
