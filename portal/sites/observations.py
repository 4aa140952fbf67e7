"""What a site reports about replicas, applied to rows. The only way in, for every kind of site.

A site reports on its own replicas only, and on an attempt only with its fence. A report that is
late, repeated or out of order changes nothing: no edge of the state machine leads back.
"""

import logging
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from itertools import chain
from typing import Any
from uuid import UUID

from django.db import transaction
from django.db.models import CharField, Q, QuerySet
from django.utils import timezone

from agents.contract.codec import encode
from agents.contract.message import NO_MESSAGE, Message
from agents.contract.pulls import ObservedPull
from portal.allocations.services import allocations_bind
from portal.audit.transitions import Transitions
from portal.database.kept_queries import KeptSelect, ListOf
from portal.inventory.models import Node
from portal.jobs.lifecycle import jobs_rollup, ring_replicas
from portal.jobs.models import OWN_NODES, Attempt, Job, Replica
from portal.live.bell import ring
from scheduler.core.model.states import REPLICA_EDGES, REPLICA_ENDED, ReplicaStatus, is_allowed

log = logging.getLogger(__name__)

# Of a replica: its key, status, pull and digest of its image, the commit of its code, its attempt,
# and its job.
KnownReplica = tuple[UUID, str, Any, str, str, int, int]
# It may get another image, if that is not the one of rank 0.
MAY_PULL = (ReplicaStatus.PREPARING, ReplicaStatus.READY)


@dataclass(frozen=True, slots=True)
class Observation:
    """What a site reports about one replica."""

    replica: UUID
    fence: int
    """Of the attempt that the site means."""
    status: ReplicaStatus
    exit_code: int | None = None
    memory_kill: bool = False
    code: str = ""
    message: Message = NO_MESSAGE
    container: str = ""
    """What the site calls it: a container, a pod, a step of a batch job."""
    address: str = ""
    port: int | None = None
    pull: ObservedPull | None = None
    """While its image is being pulled."""
    image_digest: str = ""
    """Which bytes its image is, once that is known."""
    code_commit: str = ""
    """The commit of its code, once that was fetched from a git repository."""
    applied_revision: int | None = None
    """The revision of its desired document that a node had applied."""
    was_stopped: bool = False
    """The site stopped it on request; it did not end by itself. For sites without revisions."""


@dataclass(slots=True)
class ObservationResult:
    jobs: set[int] = field(default_factory=set)
    """Jobs with a replica that moved."""
    refused: list[Observation] = field(default_factory=list)
    """About replicas that are not the site's, or with another fence."""
    locked: set[UUID] = field(default_factory=set)
    """Replicas whose rows stay locked until the transaction ends."""


def observations_apply(
    observations: Iterable[Observation],
    *,
    actor: str,
    site: str = OWN_NODES,
    node: Node | None = None,
) -> ObservationResult:
    """Apply the report of a site, or of one of Tessera's own nodes, and advance the jobs whose
    replicas moved: one transaction, in which what moves alike is written together."""
    by_replica: dict[UUID, list[Observation]] = defaultdict(list)
    for observation in observations:
        by_replica[observation.replica].append(observation)
    result = ObservationResult()
    # No savepoint inside a report's own transaction.
    with transaction.atomic(savepoint=False):
        replicas = list(by_replica)
        columns = _OF_NODE.rows(node.pk, replicas) if node else _OF_SITE.rows(site, replicas)
        seen = _news(columns, by_replica, result)
        if seen:
            _news_apply(seen, actor, result)
    result.refused += chain.from_iterable(by_replica.values())
    if result.refused:
        place = node.name if node else site
        log.info("%s reported %s replicas that are not its own", place, len(result.refused))
    return result


@dataclass(frozen=True, slots=True)
class _News:
    """What is reported about one replica that differs from its row."""

    job: int
    attempt: int
    observations: list[Observation]
    moves: bool
    """Its status, its image or its code is another one; otherwise, how far its pull is."""


def _known(replicas: Any) -> QuerySet[Replica, KnownReplica]:
    rows = Replica.objects.filter(pk__in=replicas).order_by()
    own = ("pk", "status", "pull", "image_digest", "code_commit")
    columns = (*own, "attempt_id", "attempt__job_id")
    return rows.values_list(*columns)


# Of the replicas that are reported, those of the node or site.
_OF_NODE = KeptSelect(
    lambda node, replicas: _known(replicas).filter(node=node),
    Node._meta.pk,
    ListOf(Replica._meta.pk),
)
_OF_SITE = KeptSelect(
    lambda site, replicas: _known(replicas).filter(attempt__site=site),
    CharField(),
    ListOf(Replica._meta.pk),
)
_JOBS = KeptSelect(lambda jobs: Job.objects.filter(pk__in=jobs).locking(), ListOf(Job._meta.pk))
_GANGS = KeptSelect(
    lambda replicas, attempts: (
        Replica.objects.filter(Q(pk__in=replicas) | Q(attempt__pk__in=attempts))
        .select_related("attempt")
        .locking()
    ),
    ListOf(Replica._meta.pk),
    ListOf(Attempt._meta.pk),
)


def _news(
    known: Iterable[KnownReplica],
    by_replica: dict[UUID, list[Observation]],
    result: ObservationResult,
) -> dict[UUID, _News]:
    """By replica, without a lock: a replica that would not move now will not once it is locked, as
    whatever edges reach in steps, they reach at once. Takes the known replicas from `by_replica`.
    """
    news = {}
    for pk, status, pull, digest, commit, attempt, job in known:
        reported = by_replica.pop(pk)
        valid = [seen for seen in reported if seen.fence == attempt]
        result.refused += [seen for seen in reported if seen.fence != attempt]
        old = ReplicaStatus(status)
        moves = any(
            is_allowed(REPLICA_EDGES, old, seen.status)
            or _has_new_image(old, digest, seen)
            or (seen.status is old and seen.code_commit not in ("", commit))
            for seen in valid
        )
        pulls = any(
            seen.status is old and old in MAY_PULL and _pull_columns(pull, seen) for seen in valid
        )
        if moves or pulls:
            news[pk] = _News(job, attempt, valid, moves)
    return news


def _news_apply(news: Mapping[UUID, _News], actor: str, result: ObservationResult) -> None:
    """Lock the jobs that can change, and their gangs, and write what moves in one go."""
    moving = [row for row in news.values() if row.moves]
    jobs = {job.pk: job for job in _JOBS.rows(sorted({row.job for row in moving}))}
    rows = _GANGS.rows(list(news), sorted({row.attempt for row in moving}))
    for row in rows:
        if job := jobs.get(row.attempt.job_id):
            row.attempt.job = job
    result.locked |= {row.pk for row in rows}
    transitions = Transitions()
    before = {row.pk for row in rows if row.code_commit}
    _observe_all(rows, news, actor, transitions, result)
    # An attempt that has ended meanwhile concerns its job no more.
    in_gangs = [row for row in rows if row.attempt.job_id in jobs and row.attempt.is_open]
    _ring_waiting(rows, before)
    jobs_rollup(jobs=jobs.values(), replicas=in_gangs, transitions=transitions)
    transitions.write()


def _observe_all(
    rows: Iterable[Replica],
    news: Mapping[UUID, _News],
    actor: str,
    transitions: Transitions,
    result: ObservationResult,
) -> None:
    """Gather what is reported about these rows, which are locked. Among them are replicas of other
    nodes: `news` has nothing about these."""
    now, holders = timezone.now(), []
    for row in rows:
        for observation in news[row.pk].observations if row.pk in news else ():
            if _observe(row, observation, actor, transitions, now):
                result.jobs.add(row.attempt.job_id)
                if observation.status in (ReplicaStatus.READY, ReplicaStatus.RUNNING):
                    holders.append(row)
    if holders:
        allocations_bind(replicas=holders, transitions=transitions, at=now)


def _observe(
    row: Replica, observation: Observation, actor: str, transitions: Transitions, now: datetime
) -> bool:
    """True if the replica moved."""
    old, new = ReplicaStatus(row.status), observation.status
    if old is new and old in MAY_PULL:
        _pull_update(row, observation)
    if _has_new_image(old, row.image_digest, observation):
        transitions.set_columns(row, image_digest=observation.image_digest)
    if old is new and observation.code_commit not in ("", row.code_commit):
        transitions.set_columns(row, code_commit=observation.code_commit)
    if old is new or not is_allowed(REPLICA_EDGES, old, new):
        return False
    transitions.advance(
        row,
        new,
        actor=actor,
        code=observation.code,
        message=observation.message,
        at=now,
        **_columns(row, observation, now),
    )
    return True


def _ring_waiting(rows: Iterable[Replica], before: Collection[UUID]) -> None:
    """The other ranks fetch their code once the commit of rank 0 is known. `before`: replicas whose
    commit was known already."""
    first = (row for row in rows if row.rank == 0 and row.code_commit and row.pk not in before)
    if news := {row.attempt_id for row in first}:
        ring_replicas(row for row in rows if row.attempt_id in news and row.rank)


def _pull_update(row: Replica, observation: Observation) -> None:
    """How far the pull of its image is, which changes no status."""
    columns = _pull_columns(row.pull, observation)
    if columns:
        Replica.objects.filter(pk=row.pk).update(**columns)
        ring(f"job:{row.attempt.job_id}")


def _pull_columns(stored: Any, observation: Observation) -> dict[str, Any]:
    """What changes of the two columns of its pull. A failed try is no step further."""
    pull = encode(observation.pull) if observation.pull else None
    if pull == stored:
        return {}
    is_further = observation.pull is not None and not observation.pull.cause
    return {"pull": pull} | ({"pull_moved_at": timezone.now()} if is_further else {})


def _has_new_image(old: ReplicaStatus, digest: str, observation: Observation) -> bool:
    """Whether it was prepared again, with the bytes that rank 0 has."""
    is_ready = observation.status is old is ReplicaStatus.READY
    return is_ready and observation.image_digest not in ("", digest)


def _columns(row: Replica, observation: Observation, now: datetime) -> dict[str, Any]:
    """The columns that change with the status. Times are ours: a site's clock is advisory."""
    new = observation.status
    columns: dict[str, Any] = {"container": observation.container}
    columns |= _pull_columns(row.pull, observation)
    if observation.address:
        columns |= {"address": observation.address, "port": observation.port}
    if observation.image_digest:
        columns["image_digest"] = observation.image_digest
    if observation.code_commit:
        columns["code_commit"] = observation.code_commit
    if new is ReplicaStatus.READY:
        columns["ready_at"] = now
    if new is ReplicaStatus.RUNNING or (new is ReplicaStatus.EXITED and row.started_at is None):
        columns["started_at"] = now
    if new is ReplicaStatus.EXITED:
        columns["ended_unasked"] = _ended_by_itself(row, observation)
    if new in REPLICA_ENDED:
        columns |= {
            "finished_at": now,
            "exit_code": observation.exit_code,
            "memory_kill": observation.memory_kill,
        }
    return columns


def _ended_by_itself(row: Replica, observation: Observation) -> bool:
    if observation.applied_revision is None or row.stop_revision is None:
        return not observation.was_stopped
    return observation.applied_revision < row.stop_revision
