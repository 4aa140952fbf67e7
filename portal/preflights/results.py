"""What checks of networks have found, and how their jobs go on: no check loses a job.

all is well, or nothing was measured  ─▶ the gang starts on the devices of the check
two nodes are slow, or add wrongly    ─▶ the pair is avoided, and the job is queued again
"""

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db import transaction

from agents.contract.message import Message
from portal.audit.codes import EventCode
from portal.audit.transitions import Transitions, event_record
from portal.inventory.models import Gpu, Node
from portal.jobs.failure_causes import GangFailure
from portal.jobs.gang_faults import faulty_gang_stop
from portal.jobs.lifecycle import ranks_stop
from portal.jobs.models import Attempt, Job, Replica
from portal.jobs.preflights import PREFLIGHT_SECONDS
from portal.jobs.rollups import have_ended
from portal.node_pairs.expectations import expected_between, is_simulated
from portal.node_pairs.judgement import BAD_VERDICTS, Expectation, PairVerdict, verdict_of
from portal.node_pairs.models import PairMeasurement
from portal.node_pairs.nccl_output import NcclTestOutput
from portal.node_pairs.services import (
    NO_OUTPUT,
    gigabytes_per_second,
    measured_of_attempt,
    pair_measurement_record,
    slow_message,
    wrong_message,
)
from portal.preflights.handover import attempt_hand_over
from portal.storage.errors import StoreUnavailable
from scheduler.core.model.states import JobStatus

LIMIT = timedelta(seconds=PREFLIGHT_SECONDS)
# The last bytes of a log arrive soon after the end, if they do.
LATE_LOG = timedelta(seconds=30)

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Finding:
    nodes: tuple[Node, ...]
    """By name, each once."""
    output: NcclTestOutput
    expected: Expectation
    verdict: PairVerdict

    @property
    def mb_per_second(self) -> int:
        return round(self.output.best.busbw * 1_000) if self.output.best else 0

    @property
    def message(self) -> Message:
        words = {
            "nodes": ", ".join(node.name for node in self.nodes),
            "busbw": gigabytes_per_second(self.mb_per_second),
            "expected": gigabytes_per_second(self.expected.mb_per_second),
        }
        match self.verdict:
            case PairVerdict.FAILED:
                return Message(
                    "The network check over %(nodes)s gave no result: read the log of its attempt. "
                    "The job starts without it",
                    nodes=words["nodes"],
                )
            case PairVerdict.WRONG:
                return Message(
                    "The network check over %(nodes)s had wrong sums. Which node is faulty is not "
                    "known: an admin can measure them in pairs",
                    nodes=words["nodes"],
                )
            case PairVerdict.SLOW:
                return Message(
                    "The network check over %(nodes)s reached %(busbw)s of %(expected)s GB/s. "
                    "Which link is slow is not known: an admin can measure the nodes in pairs",
                    **words,
                )
        return Message(
            "The network check over %(nodes)s reached %(busbw)s GB/s",
            nodes=words["nodes"],
            busbw=words["busbw"],
        )


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
        output = measured_of_attempt(attempt, head)
    except StoreUnavailable as error:
        # It is looked at again as long as a late log: the devices do not wait for a store.
        log.warning("the log of %s cannot be read: %s", attempt, error)
        output = NO_OUTPUT
    is_whole = output.is_complete or output.wrong_values or output.errors
    if not is_whole and head.started_at and now - (head.finished_at or now) < LATE_LOG:
        return False
    finding = _finding(attempt, replicas, output)
    if len(finding.nodes) == 2 and finding.verdict in BAD_VERDICTS:
        return _avoid(attempt, head, finding, now)
    return _go_on(attempt, finding, now)


def _ranks_end(attempt: Attempt) -> None:
    """Of a check that had its time, unless its job is stopped already."""
    with transaction.atomic():
        open_one = Attempt.objects.open().filter(pk=attempt.pk).values("job")
        if Job.objects.filter(pk__in=open_one, status=JobStatus.PREPARING).lock_keys():
            rows = Replica.objects.filter(attempt=attempt.pk).select_related("attempt__job")
            transitions = Transitions()
            ranks_stop(rows.lock_rows(), transitions, keep_devices=True)
            transitions.write()


def _finding(attempt: Attempt, replicas: Sequence[Replica], output: NcclTestOutput) -> _Finding:
    of_replicas = {row.node_id for row in replicas if row.node_id}
    nodes = tuple(Node.objects.filter(pk__in=of_replicas).order_by("name"))
    expected = Expectation()
    if len(nodes) == 2:
        expected = expected_between(*nodes, gpus=_gpus(attempt, replicas))
    elif not is_simulated(*nodes):
        # A ring is as fast as its slowest link.
        links = zip(nodes, (*nodes[1:], nodes[0]), strict=True)
        found = [expected_between(*link, gpus=_gpus(attempt, replicas)) for link in links]
        expected = min(found, key=lambda one: one.mb_per_second, default=expected)
    best = round(output.best.busbw * 1_000) if output.best else 0
    verdict = verdict_of(best, output.wrong_values, expected.mb_per_second)
    if not (output.is_complete or output.wrong_values) or (
        output.is_ring and not is_simulated(*nodes)
    ):
        verdict = PairVerdict.FAILED
    return _Finding(nodes, output, expected, verdict)


def _gpus(attempt: Attempt, replicas: Sequence[Replica]) -> dict[object, int]:
    """By node, how many GPUs of it took part."""
    gpus = Gpu.objects.filter(slices__allocations__replica__in=[row.pk for row in replicas])
    found: dict[object, int] = {}
    for node in gpus.values_list("node_id", flat=True):
        found[node] = found.get(node, 0) + 1
    return found


def _avoid(attempt: Attempt, head: Replica, finding: _Finding, now: datetime) -> bool:
    """Keep the result, which tells admins, and have the job placed elsewhere where it can be."""
    with transaction.atomic():
        open_one = Attempt.objects.open().filter(pk=attempt.pk).values("job")
        rows = Job.objects.filter(pk__in=open_one, status=JobStatus.PREPARING).lock_rows()
        for job in rows:
            row = _record(attempt, finding, now)
            says = slow_message if finding.verdict is PairVerdict.SLOW else wrong_message
            faulty_gang_stop(job=job, rank=head, code=GangFailure.NETWORK_CHECK, message=says(row))
    return bool(rows)


def _go_on(attempt: Attempt, finding: _Finding, now: datetime) -> bool:
    with transaction.atomic():
        has_result = finding.verdict is not PairVerdict.FAILED
        message = finding.message
        if not attempt_hand_over(attempt=attempt, message=message, has_result=has_result):
            return False
        if len(finding.nodes) == 2 and has_result:
            _record(attempt, finding, now)
        elif finding.verdict in BAD_VERDICTS:
            is_slow = finding.verdict is PairVerdict.SLOW
            code = EventCode.PAIR_SLOW if is_slow else EventCode.PAIR_WRONG
            event_record(finding.nodes[0], code, message)
    return True


def _record(attempt: Attempt, finding: _Finding, now: datetime) -> PairMeasurement:
    first, second = finding.nodes
    return pair_measurement_record(
        attempt=attempt,
        nodes=(first, second),
        output=finding.output,
        expected=finding.expected,
        verdict=finding.verdict,
        now=now,
    )
