"""Read what the jobs that measure pairs have written, once they have ended.

Text of jobs is believed nowhere else: a measurement names its job, and only an admin starts one
(`portal.submission.pair_measurements`), with Tessera's command and the image of the settings.
"""

import logging
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db import transaction

from agents.contract.message import Message
from portal.audit.codes import EventCode
from portal.audit.transitions import event_record
from portal.errors import Refused
from portal.job_logs.storage import open_logs, read_log
from portal.jobs.models import Attempt
from portal.jobs.querysets import values_of
from portal.live.bell import ring, ring_plan
from portal.node_pairs.judgement import PairVerdict, verdict_of
from portal.node_pairs.models import PairMeasurement
from portal.node_pairs.nccl_output import NcclTestOutput, read_nccl_output
from portal.storage.errors import StoreError
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
        except StoreError as error:
            log.warning("the log of %s cannot be read: %s", row.job.label, error)
            continue
        if result is not None:
            _finish(row, result, now)
            found += 1
    return found


def _result(row: PairMeasurement, now: datetime) -> PairResult | None:
    """None while the end of the log is still to come. Raises StoreError."""
    attempts = Attempt.objects.filter(job=row.job_id).order_by("-number")
    attempt = attempts.prefetch_related("replicas").first()
    if attempt is None:
        return PairResult(problem=Message("%(job)s ended before it ran", job=row.job.label))
    attempt.job = row.job
    replicas = sorted(attempt.replicas.all(), key=lambda replica: replica.rank)
    nodes = [replica.node_id for replica in replicas]
    if sorted(map(str, nodes)) != sorted(map(str, (row.first_id, row.second_id))):
        return PairResult(problem=Message("%(job)s ran on other nodes", job=row.job.label))
    head = replicas[0]
    head.attempt = attempt
    open_logs([head])
    try:
        data = read_log(head, max(0, head.log_bytes - TAIL_BYTES), TAIL_BYTES)
    except Refused:  # Retention removed it.
        data = b""
    output = read_nccl_output(data.decode("utf-8", "replace"))
    if output.is_complete or output.wrong_values:
        return PairResult(output)
    ended_at = row.job.finished_at or now
    if now - ended_at < LATE_LOG and not output.errors:
        return None
    sentence = "%(job)s printed no whole table of nccl-tests. Read its log"
    return PairResult(output, Message(sentence, job=row.job.label))


def _finish(row: PairMeasurement, result: PairResult, now: datetime) -> None:
    best = result.output.best
    row.finished_at = now
    if result.problem is not None:
        row.verdict, row.problem = PairVerdict.FAILED, result.problem.as_dict()
    else:
        row.is_current = True
        row.busbw_mb_per_second = round(best.busbw * 1_000) if best else 0
        row.message_bytes = best.size_bytes if best else 0
        row.wrong_values = result.output.wrong_values
        row.verdict = verdict_of(
            row.busbw_mb_per_second, row.wrong_values, row.expected_mb_per_second
        )
    with transaction.atomic():
        rows = PairMeasurement.objects.filter(pk=row.pk).unfinished()
        if rows.select_for_update().first() is None:
            return
        if row.is_current:
            same = PairMeasurement.objects.filter(first=row.first_id, second=row.second_id)
            same.current().update(is_current=False)
            _record(row)
        row.save()
        for node in (row.first, row.second):
            ring(f"node:{node.pk}")
        ring("cluster")
        ring_plan()


def _record(row: PairMeasurement) -> None:
    """In the history of both nodes; admins are told of what is bad once."""
    first, second = row.first, row.second
    words = {"first": first.name, "second": second.name, "job": row.job.label}
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
        job=row.job.label,
    )


def wrong_message(row: PairMeasurement) -> Message:
    """That sums between the pair are wrong, and how to find the faulty node."""
    return Message(
        "An all-reduce between %(first)s and %(second)s had wrong sums (%(job)s). One of them is "
        "faulty: measure each with a third node, and cordon the one that is wrong again",
        first=row.first.name,
        second=row.second.name,
        job=row.job.label,
    )


def gigabytes_per_second(mb_per_second: int) -> str:
    """As people write it: "97.3"."""
    return f"{mb_per_second / 1_000:.1f}"
