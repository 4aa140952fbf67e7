"""What an attempt runs: the job's request, or that of a check of the network before the job starts.

Nothing of the job is in such a check: no code, variables, secrets or volumes, and not its image. So
what it measures counts for all jobs. Who decides that there is one: `portal/preflights/`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from agents.contract.documents import CollectiveBackend
from agents.contract.launcher_names import LauncherName
from agents.contract.profilers import Profiler
from portal.jobs.models import Attempt
from scheduler.core.request import JobRequest

# From the start of its ranks on: then the job goes on without a result.
PREFLIGHT_SECONDS = 300
# Nothing is saved at its end.
GRACE_SECONDS = 10
# Of `Attempt.preflight`, from when its devices have passed on: whether anything was measured.
HAS_RESULT = "has_result"
# Of one that measures pairs: what a check before it found over all nodes.
WHOLE_RING = "whole_ring"


def stored_preflight(
    *, image: str, command: Sequence[str], whole_ring: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """As `Attempt.preflight` keeps it. `whole_ring`: of one that measures pairs."""
    written: dict[str, Any] = {"image": image, "command": list(command)}
    return written if whole_ring is None else written | {WHOLE_RING: dict(whole_ring)}


def stored_ring(attempt: Attempt) -> Mapping[str, Any] | None:
    """As it was stored; None of a check over all nodes at once."""
    written: Mapping[str, Any] = attempt.preflight or {}
    found: Mapping[str, Any] | None = written.get(WHOLE_RING)
    return found


def attempt_image(attempt: Attempt) -> str:
    return str(attempt.preflight["image"]) if attempt.preflight else attempt.job.image


def attempt_request(attempt: Attempt, request: JobRequest) -> JobRequest:
    """`request`: that of its job."""
    written: Mapping[str, Any] | None = attempt.preflight
    if written is None:
        return request
    return replace(
        request,
        image=str(written["image"]),
        command=tuple(map(str, written["command"])),
        launcher=LauncherName.NCCL_TESTS,
        replicas=attempt.placed_replicas,
        max_replicas=0,
        processes=request.device.gpus,
        backend=CollectiveBackend.NCCL,
        grace_seconds=GRACE_SECONDS,
        env={},
        code="",
        secrets=(),
        volumes=(),
        apps=(),
        profiler=Profiler.NONE,
    )
