"""Metrics that jobs report: only of the node's own replicas, each point once."""

import math
from uuid import UUID

from agents.contract.errors import ContractError, ContractErrorCode
from agents.contract.job_metrics import (
    MAX_CALL_POINTS,
    JobMetricsRequest,
    JobMetricsResponse,
)
from portal.inventory.credentials import CREDENTIALS, node_authenticate
from portal.job_metrics.services import metrics_record
from portal.jobs.models import Replica

# Between the points that a batch has at most and its last points.
MAX_POINTS = 2 * MAX_CALL_POINTS


def job_metrics_accept(*, authorization: str, request: JobMetricsRequest) -> JobMetricsResponse:
    """Raises ContractError only for the call as a whole."""
    node = node_authenticate(CREDENTIALS, authorization=authorization, epoch=request.epoch)
    _check(request)
    keys = {key: batch.replica for batch in request.batches if (key := _uuid(batch.replica))}
    rows = Replica.objects.filter(pk__in=list(keys), node=node).select_related("attempt")
    replicas = {keys[row.pk]: row for row in rows}
    results = metrics_record(
        replicas=replicas, batches=request.batches, from_logs=request.from_logs
    )
    return JobMetricsResponse(tuple(results))


def _check(request: JobMetricsRequest) -> None:
    batches = request.batches
    if len({batch.replica.lower() for batch in batches}) < len(batches):
        raise _refusal("each replica may be there once", "batches.replica")
    if any(batch.end < batch.offset for batch in batches):
        raise _refusal("a batch ends before it begins", "batches.end")
    for batch in batches:
        if len({series.name for series in batch.series}) < len(batch.series):
            raise _refusal("each name may be there once", "batches.series.name")
        for series in batch.series:
            if not series.steps or len(series.steps) != len(series.values):
                raise _refusal("each step needs its value", "batches.series.steps")
            if not all(math.isfinite(float(v)) for v in (series.low, series.high, *series.values)):
                raise _refusal("a value is not finite", "batches.series.values")
    if sum(len(s.steps) for batch in batches for s in batch.series) > MAX_POINTS:
        raise _refusal(f"a call has at most {MAX_POINTS} points", "batches")


def _refusal(sentence: str, field: str) -> ContractError:
    return ContractError(ContractErrorCode.INVALID_FIELD, sentence, field)


def _uuid(text: str) -> UUID | None:
    try:
        return UUID(text)
    except ValueError:
        return None
