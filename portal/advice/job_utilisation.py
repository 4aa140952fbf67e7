"""Model FLOPs utilisation of one job, from what it reported and the devices of its attempt."""

from collections.abc import Sequence
from statistics import median

from django.db.models import Count

from agents.contract.boards import known_boards
from agents.contract.documents import SliceKind
from portal.advice.figures import board_figures
from portal.advice.model_utilisation import (
    ModelUtilisation,
    ReportedSpeed,
    TrainingDevices,
    model_utilisation,
)
from portal.advice.training_command import training_command
from portal.allocations.models import Allocation
from portal.job_metrics.models import MetricSeries
from portal.job_metrics.selectors import lowest_ranks, points_load, points_of
from portal.jobs.models import Job

# Names of metrics, over all GPUs of the job.
TOKENS_PER_SECOND, TOKEN_FLOPS = "tokens_per_second", "model_flops_per_token"
TOKENS_PER_STEP, STEP_SECONDS = "tokens_per_step", "step_seconds"
NAMES = frozenset({TOKENS_PER_SECOND, TOKEN_FLOPS, TOKENS_PER_STEP, STEP_SECONDS})
# The last points that a series keeps: what a run does once it is warm.
LAST_POINTS = 20


def job_utilisation(job: Job, series: Sequence[MetricSeries]) -> ModelUtilisation | None:
    """`series`: of the job, with or without points. None where it reports no speed in tokens. Two
    queries, none for a job that does not."""
    known = {row.name: row for row in lowest_ranks(series) if row.name in NAMES}
    rate = known.get(TOKENS_PER_SECOND) or known.get(STEP_SECONDS)
    if rate is None or (rate.name == STEP_SECONDS and TOKENS_PER_STEP not in known):
        return None
    points_load(list(known.values()))
    values = {name: _usual(row) for name, row in known.items()}
    step = values.get(TOKENS_PER_STEP, 0.0)
    speed = values.get(TOKENS_PER_SECOND, 0.0)
    if rate.name == STEP_SECONDS and values[STEP_SECONDS] > 0:
        speed = step / values[STEP_SECONDS]
    if not 0 < speed < float("inf"):
        return None
    reported = ReportedSpeed(speed, max(0.0, values.get(TOKEN_FLOPS, 0.0)), max(0.0, step))
    command = training_command(job.request.get("command", ()))
    return model_utilisation(reported, command, _devices(job, rate.attempt))


def _usual(row: MetricSeries) -> float:
    return median(value for _, value in points_of(row)[-LAST_POINTS:])


def _devices(job: Job, attempt: int) -> TrainingDevices | None:
    """Of the attempt that reported last, by its number. One query."""
    rows = Allocation.objects.filter(
        replica__attempt__job=job, replica__attempt__number=attempt, slice__isnull=False
    )
    kinds = rows.order_by().values_list("slice__gpu__board", "slice__kind", "slice__profile")
    found = list(kinds.annotate(Count("id")))
    if len(found) != 1 or found[0][1] == SliceKind.MPS:
        return None
    key, kind, name, count = found[0]
    board = known_boards().get(key)
    if board is None:
        return TrainingDevices(key, count, None)
    if kind == SliceKind.GPU:
        return TrainingDevices(board.model, count, board_figures(board, None))
    profile = board.profile(name)
    figures = board_figures(board, profile) if profile else None
    return TrainingDevices(f"{board.model} {name}", count, figures)
