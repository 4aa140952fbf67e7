"""Which rank of an attempt failed first, and how: what `Attempt.first_failure` keeps.

Most failures are reported by nodes. Some the portal finds by itself, such as a rank that never
starts: these are `imposed`, and kept before the gang is stopped, so that no rank that the stop ends
passes for the first.
"""

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from django.utils import timezone

from agents.contract.end_causes import END_CAUSES
from agents.contract.message import Message
from portal.audit.models import Event
from portal.audit.transitions import Transitions
from portal.jobs.models import Attempt, Replica
from scheduler.core.model.states import ReplicaStatus

# Of failed replicas: what ended them was around them.
LOST_CODES = END_CAUSES | {"vanished", "ended_unseen", "gpu_error", "gpu_lost", "quarantined"}


def imposed_failure(*, rank: int, status: str, code: str, message: Message) -> dict[str, Any]:
    """A failure for which the portal stops an attempt. `status`: of the rank, which has not ended;
    it counts as a failure of the infrastructure."""
    return {
        "rank": rank,
        "status": status,
        "exit_code": None,
        "code": code,
        "sentence": message.text,
        "said": message.as_dict(),
    }


def cause_of_end(
    attempt: Attempt, replicas: list[Replica], transitions: Transitions
) -> dict[str, Any] | None:
    """The first failure; but if a program failed first, and then the node of another rank reports
    that it ended that rank, the latter: the ranks that are left fail as soon as one is gone, and
    report it before a node that has to boot first."""
    first: dict[str, Any] | None = attempt.first_failure
    ended = [r for r in replicas if _was_ended_by_node(r)]
    is_program = first is not None and first.get("status") == ReplicaStatus.EXITED
    return _failure(_earliest(ended), transitions) if is_program and ended else first


def _was_ended_by_node(replica: Replica) -> bool:
    return replica.status == ReplicaStatus.LOST or (
        replica.status == ReplicaStatus.FAILED and replica.code in END_CAUSES
    )


def is_lost_rank(failure: Mapping[str, Any]) -> bool:
    """Whether a rank was lost: its node, engine or device ended it, not its program."""
    return failure.get("status") == ReplicaStatus.LOST or (
        failure.get("status") == ReplicaStatus.FAILED and failure.get("code") in LOST_CODES
    )


def first_failure(replicas: list[Replica], transitions: Transitions) -> dict[str, Any]:
    failed = [
        r
        for r in replicas
        if r.status in (ReplicaStatus.FAILED, ReplicaStatus.LOST)
        or (r.status == ReplicaStatus.EXITED and r.exit_code != 0)
    ]
    return _failure(_earliest(failed), transitions)


def _earliest(failed: list[Replica]) -> Replica:
    latest = timezone.now() + timedelta(days=1)
    return min(failed, key=lambda r: (r.finished_at or latest, r.rank))


def _failure(first: Replica, transitions: Transitions) -> dict[str, Any]:
    """How a replica failed, as `Attempt.first_failure` keeps it."""
    # It may have failed a moment ago, in these.
    transitions.write()
    # What the sentence was made of, for other languages.
    written = Event.objects.filter(noun=first.NOUN, noun_id=str(first.pk), new=first.status)
    data = written.order_by("-id").values_list("data", flat=True).first() or {}
    parts = {"said": data["said"]} if "said" in data else {}
    return parts | {
        "rank": first.rank,
        "status": first.status,
        "exit_code": first.exit_code,
        "code": first.code,
        "sentence": first.sentence or f"rank {first.rank} ended with exit code {first.exit_code}",
    }
