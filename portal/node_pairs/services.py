"""Read what the jobs that measure pairs have written, once they have ended.

Text of jobs is believed nowhere else: a measurement names its job, and only an admin starts one
(`portal.submission.pair_measurements`), or it names an attempt that checks the network of a gang
(`portal.preflights`). Both run Tessera's command in the image of the settings.
"""

import logging
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db import transaction

from agents.contract.message import Message
from portal.audit.codes import AuditAction, EventCode
from portal.audit.services import audit_record
from portal.audit.transitions import event_record
from portal.error_codes import ErrorCode
from portal.errors import Refused
from portal.inventory.models import Node
from portal.job_logs.storage import open_logs, read_log
from portal.jobs.models import Attempt, Replica
from portal.jobs.querysets import values_of
from portal.live.bell import ring, ring_plan
from portal.node_pairs.expectations import is_simulated
from portal.node_pairs.judgement import Expectation, PairVerdict, verdict_of
from portal.node_pairs.models import PairMeasurement
from portal.node_pairs.nccl_output import NcclTestOutput, read_nccl_output
from portal.storage.errors import StoreUnavailable
from scheduler.core.model.states import JOB_FINAL

# The table stands at the end of a log that is short unless NCCL is told to say much.
TAIL_BYTES = 256 * 1024
# The last bytes of a log arrive soon after the end, if they do.
LATE_LOG = timedelta(minutes=10)

NO_OUTPUT = NcclTestOutput()

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class PairResult:
    """What came of a measurement."""

    output: NcclTestOutput = NO_OUTPUT
    problem: Message | None = None
    """Why there is no result."""


def pair_measurements_collect(*, now: datetime) -> int:
    """Read the results of the jobs that have ended. One query if there are none. Returns how many
    were read. One that cannot be read does not hold up the others; the next sweep tries again."""
    ended = PairMeasurement.objects.unfinished().filter(job__status__in=values_of(JOB_FINAL))
    found = 0
    for row in ended.select_related("first", "second", "job").order_by("id"):
        try:
            result = _result(row, now)
        except StoreUnavailable as error:
            log.warning("the log of %s cannot be read: %s", row.measuring_job.label, error)
            continue
        if result is not None:
            _finish(row, result, now)
            found += 1
    return found


def measured_of_attempt(attempt: Attempt, head: Replica) -> NcclTestOutput:
    """What rank 0 has measured; nothing if its log was removed, or is lost. `head`: it. Raises
    StoreUnavailable."""
    return read_nccl_output(log_end(attempt, head))


def log_end(attempt: Attempt, head: Replica) -> str:
    """The last TAIL_BYTES of the log of rank 0, `head`. Raises as above."""
    head.attempt = attempt
    try:
        open_logs([head])
        data = read_log(head, max(0, head.log_bytes - TAIL_BYTES), TAIL_BYTES)
    except StoreUnavailable:
        raise
    except Refused:
        data = b""
    return data.decode("utf-8", "replace")


def pair_measurement_record(
    *,
    attempt: Attempt,
    nodes: tuple[Node, Node],
    output: NcclTestOutput,
    expected: Expectation,
    verdict: PairVerdict,
    now: datetime,
) -> PairMeasurement:
    """Keep what a check of a gang has found between two nodes, the lower name first, as the result
    that counts for them. In the transaction that decides about its job."""
    row = PairMeasurement(
        first=nodes[0],
        second=nodes[1],
        attempt=attempt,
        actor=attempt.job.owner.username,
        expected_mb_per_second=expected.mb_per_second,
        expected_source=expected.source,
        verdict=verdict,
        finished_at=now,
    )
    _set_output(row, output)
    _keep(row)
    return row


def _result(row: PairMeasurement, now: datetime) -> PairResult | None:
    """None while the end of the log is still to come. Raises StoreUnavailable."""
    job = row.measuring_job
    attempts = Attempt.objects.filter(job=job).order_by("-number")
    attempt = attempts.prefetch_related("replicas").first()
    if attempt is None:
        return PairResult(problem=Message("%(job)s ended before it ran", job=job.label))
    attempt.job = job
    replicas = sorted(attempt.replicas.all(), key=lambda replica: replica.rank)
    nodes = [replica.node_id for replica in replicas]
    if sorted(map(str, nodes)) != sorted(map(str, (row.first_id, row.second_id))):
        return PairResult(problem=Message("%(job)s ran on other nodes", job=job.label))
    output = measured_of_attempt(attempt, replicas[0])
    if output.is_ring and not is_simulated(row.first, row.second):
        sentence = "%(job)s measured TCP between programs, and its nodes have real GPUs"
        return PairResult(problem=Message(sentence, job=job.label))
    if output.is_complete or output.wrong_values:
        return PairResult(output)
    ended_at = job.finished_at or now
    if now - ended_at < LATE_LOG and not output.errors:
        return None
    sentence = "%(job)s printed no whole table of nccl-tests. Read its log"
    return PairResult(output, Message(sentence, job=job.label))


def _finish(row: PairMeasurement, result: PairResult, now: datetime) -> None:
    row.finished_at = now
    if result.problem is not None:
        row.verdict, row.problem = PairVerdict.FAILED, result.problem.as_dict()
    else:
        _set_output(row, result.output)
        row.verdict = verdict_of(
            row.busbw_mb_per_second, row.wrong_values, row.expected_mb_per_second
        )
    with transaction.atomic():
        rows = PairMeasurement.objects.filter(pk=row.pk).unfinished()
        if rows.select_for_update().first() is None:
            return
        _keep(row)


def _set_output(row: PairMeasurement, output: NcclTestOutput) -> None:
    best = output.best
    row.is_current = True
    row.busbw_mb_per_second = round(best.busbw * 1_000) if best else 0
    row.message_bytes = best.size_bytes if best else 0
    row.wrong_values = output.wrong_values


def _keep(row: PairMeasurement) -> None:
    if row.is_current:
        same = PairMeasurement.objects.filter(first=row.first_id, second=row.second_id)
        same.current().update(is_current=False)
        _record(row)
    row.save()
    for node in (row.first, row.second):
        ring(f"node:{node.pk}")
    ring("cluster")
    ring_plan()


def pair_clear(*, measurement: PairMeasurement, actor: str) -> None:
    """Have gangs use a bad pair again, as after a repair, before it is measured anew. What was
    found stays in the list. Raises Refused(pair_invalid) for a result for which no gang keeps away.
    """
    with transaction.atomic():
        rows = PairMeasurement.objects.bad().filter(pk=measurement.pk)
        if not rows.update(is_current=False):
            sentence = "No gang keeps away from this pair for that result"
            raise Refused(ErrorCode.PAIR_INVALID, sentence)
        first, second = measurement.first, measurement.second
        audit_record(
            actor=actor,
            action=AuditAction.PAIR_CLEAR,
            noun="node",
            noun_id=first.name,
            before={"with": second.name, "verdict": measurement.verdict},
        )
        words = {"first": first.name, "second": second.name, "actor": actor}
        message = Message("%(actor)s cleared the result of %(first)s and %(second)s", **words)
        for node in (first, second):
            event_record(node, EventCode.PAIR_MEASURED, message, actor=actor)
            ring(f"node:{node.pk}")
        ring("cluster")
        ring_plan()


def _record(row: PairMeasurement) -> None:
    """In the history of both nodes; admins are told of what is bad once."""
    first, second = row.first, row.second
    words = {"first": first.name, "second": second.name, "job": row.measuring_job.label}
    busbw = gigabytes_per_second(row.busbw_mb_per_second)
    code = EventCode.PAIR_MEASURED
    message = Message(
        "An all-reduce between %(first)s and %(second)s reached %(busbw)s GB/s (%(job)s)",
        busbw=busbw,
        **words,
    )
    if row.verdict == PairVerdict.SLOW:
        code = EventCode.PAIR_SLOW
        message = slow_message(row)
    elif row.verdict == PairVerdict.WRONG:
        code = EventCode.PAIR_WRONG
        message = wrong_message(row)
    event_record(first, code, message)
    event_record(second, EventCode.PAIR_MEASURED, message)


def slow_message(row: PairMeasurement) -> Message:
    """That the pair is slow, and what to check."""
    return Message(
        "An all-reduce between %(first)s and %(second)s reached %(busbw)s of %(expected)s GB/s "
        "(%(job)s). Check on both that nvidia-peermem is loaded and that every rail is up at its "
        "full rate, then the cables and switch ports between them",
        first=row.first.name,
        second=row.second.name,
        busbw=gigabytes_per_second(row.busbw_mb_per_second),
        expected=gigabytes_per_second(row.expected_mb_per_second),
        job=row.measuring_job.label,
    )


def wrong_message(row: PairMeasurement) -> Message:
    """That sums between the pair are wrong, and how to find the faulty node."""
    return Message(
        "An all-reduce between %(first)s and %(second)s had wrong sums (%(job)s). One of them is "
        "faulty: measure each with a third node, and cordon the one that is wrong again",
        first=row.first.name,
        second=row.second.name,
        job=row.measuring_job.label,
    )


def gigabytes_per_second(mb_per_second: int) -> str:
    """As people write it: "97.3"."""
    return f"{mb_per_second / 1_000:.1f}"
