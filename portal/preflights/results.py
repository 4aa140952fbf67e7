"""What checks of networks have found, and how their jobs go on: no check loses a job.

all is well, or nothing was measured      ─▶ the gang starts on the devices of the check
two nodes are slow, or add wrongly        ─▶ the pair is avoided, and the job is queued again
so are more than two, as one ring         ─▶ a check of their pairs, on the same devices
    one of these, or several, are bad     ─▶ as for two nodes
    none is                               ─▶ admins are told, and the gang starts
"""

import logging
from collections.abc import Sequence
from datetime import datetime, timedelta

from django.db import transaction

from agents.contract.message import Message, read_message
from portal.audit.codes import EventCode
from portal.audit.transitions import Transitions, event_record
from portal.jobs.failure_causes import GangFailure
from portal.jobs.gang_faults import faulty_gang_stop
from portal.jobs.lifecycle import ranks_stop
from portal.jobs.models import Attempt, Job, Replica
from portal.jobs.preflights import PREFLIGHT_SECONDS, stored_ring
from portal.jobs.rollups import have_ended
from portal.node_pairs.judgement import BAD_VERDICTS, PairVerdict
from portal.node_pairs.models import PairMeasurement
from portal.node_pairs.nccl_output import read_nccl_output
from portal.node_pairs.services import (
    log_end,
    pair_measurement_record,
    slow_message,
    wrong_message,
)
from portal.preflights.findings import NetworkFinding, finding_of, gang_gpus, gang_nodes
from portal.preflights.handover import attempt_hand_over
from portal.preflights.pair_checks import pair_check, pair_findings
from portal.storage.errors import StoreUnavailable
from scheduler.core.model.states import JobStatus

LIMIT = timedelta(seconds=PREFLIGHT_SECONDS)
# The last bytes of a log arrive soon after the end, if they do.
LATE_LOG = timedelta(seconds=30)
# Of pairs that one sentence names.
MAX_NAMED = 8

log = logging.getLogger(__name__)


def preflights_collect(*, now: datetime) -> int:
    """Go on with the jobs whose checks have ended, or have had their time. One query if there are
    none. Returns how many went on. One that cannot be read does not hold up the others."""
    rows = Attempt.objects.open().filter(preflight__isnull=False, job__status=JobStatus.PREPARING)
    return sum(_look(attempt, now) for attempt in rows.select_related("job", "gang_network"))


def _look(attempt: Attempt, now: datetime) -> bool:
    replicas = list(attempt.replicas.order_by("rank"))
    begun = min((row.started_at for row in replicas if row.started_at), default=None)
    if not have_ended(replicas):
        if begun is not None and begun + LIMIT < now:
            _ranks_end(attempt)
        return False
    head = replicas[0]
    try:
        text = log_end(attempt, head)
    except StoreUnavailable as error:
        # It is looked at again as long as a late log: the devices do not wait for a store.
        log.warning("the log of %s cannot be read: %s", attempt, error)
        text = ""
    findings = _findings(attempt, replicas, text)
    is_early = head.started_at and now - (head.finished_at or now) < LATE_LOG
    if is_early and not all(finding.output.is_final for finding in findings):
        return False
    if stored_ring(attempt) is None and len(findings[0].nodes) > 2:
        return _follow_ring(attempt, replicas, findings[0])
    if any(finding.verdict in BAD_VERDICTS for finding in findings):
        return _avoid(attempt, head, findings, now)
    return _go_on(attempt, findings, now)


def _ranks_end(attempt: Attempt) -> None:
    """Of a check that had its time, unless its job is stopped already."""
    with transaction.atomic():
        open_one = Attempt.objects.open().filter(pk=attempt.pk).values("job")
        if Job.objects.filter(pk__in=open_one, status=JobStatus.PREPARING).lock_keys():
            rows = Replica.objects.filter(attempt=attempt.pk).select_related("attempt__job")
            transitions = Transitions()
            ranks_stop(rows.lock_rows(), transitions, keep_devices=True)
            transitions.write()


def _findings(attempt: Attempt, replicas: Sequence[Replica], text: str) -> list[NetworkFinding]:
    """One over all nodes, or one of each pair."""
    nodes, gpus = gang_nodes(replicas), gang_gpus(replicas)
    if stored_ring(attempt) is None:
        return [finding_of(nodes, gpus, read_nccl_output(text))]
    return pair_findings(nodes, replicas, gpus, text)


def _follow_ring(attempt: Attempt, replicas: Sequence[Replica], finding: NetworkFinding) -> bool:
    """The job starts, or the pairs of a bad ring are measured."""
    if finding.verdict not in BAD_VERDICTS:
        return attempt_hand_over(
            attempt=attempt, message=finding.message, has_result=finding.has_result
        )
    message = Message("%(ring)s. Its pairs of nodes are measured now", ring=finding.message)
    following = pair_check(attempt, replicas, finding)
    return attempt_hand_over(attempt=attempt, message=message, has_result=True, preflight=following)


def _avoid(
    attempt: Attempt, head: Replica, findings: Sequence[NetworkFinding], now: datetime
) -> bool:
    """Keep the results, which tells admins, and have the job placed elsewhere where it can be."""
    with transaction.atomic():
        open_one = Attempt.objects.open().filter(pk=attempt.pk).values("job")
        rows = Job.objects.filter(pk__in=open_one, status=JobStatus.PREPARING).lock_rows()
        for job in rows:
            message = _bad_message(_record(attempt, findings, now))
            faulty_gang_stop(job=job, rank=head, code=GangFailure.NETWORK_CHECK, message=message)
    return bool(rows)


def _bad_message(rows: Sequence[PairMeasurement]) -> Message:
    bad = [row for row in rows if row.is_bad]
    if len(bad) == 1:
        says = slow_message if bad[0].verdict == PairVerdict.SLOW else wrong_message
        return says(bad[0])
    return Message(
        "The network check found several pairs of nodes that are slow or add wrongly: %(pairs)s",
        pairs=[
            Message("clause.and", first=row.first.name, then=row.second.name)
            for row in bad[:MAX_NAMED]
        ],
    )


def _go_on(attempt: Attempt, findings: Sequence[NetworkFinding], now: datetime) -> bool:
    """The job starts. Of one node or two there is one finding, of a ring one of each pair."""
    ring = stored_ring(attempt)
    has_result = any(finding.has_result for finding in findings)
    message = findings[0].message
    if ring is not None:
        are_all_good = all(finding.has_result for finding in findings)
        message = _ring_message(read_message(ring["message"]) or message, are_all_good)
    with transaction.atomic():
        if not attempt_hand_over(attempt=attempt, message=message, has_result=has_result):
            return False
        _record(attempt, findings, now)
        if ring is not None:
            is_slow = ring["verdict"] == PairVerdict.SLOW
            code = EventCode.PAIR_SLOW if is_slow else EventCode.PAIR_WRONG
            event_record(findings[0].nodes[0], code, message)
    return True


def _ring_message(ring: Message, are_all_good: bool) -> Message:
    """Of a bad ring without a bad pair."""
    if are_all_good:
        return Message(
            "%(ring)s, but no pair of neighbours in it is slow or adds wrongly by itself. Look at "
            "what several pairs share, such as a switch or the links between switches",
            ring=ring,
        )
    return Message(
        "%(ring)s. Which pair of nodes is the cause is not known, as measuring some gave no "
        "result: an admin can measure them",
        ring=ring,
    )


def _record(
    attempt: Attempt, findings: Sequence[NetworkFinding], now: datetime
) -> list[PairMeasurement]:
    """The results of pairs."""
    return [
        pair_measurement_record(
            attempt=attempt,
            nodes=(finding.nodes[0], finding.nodes[1]),
            output=finding.output,
            expected=finding.expected,
            verdict=finding.verdict,
            now=now,
        )
        for finding in findings
        if finding.has_result and len(finding.nodes) == 2
    ]
