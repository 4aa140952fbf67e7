"""Where replicas come from, for the log of their agent: asked once for each in a process."""

from uuid import UUID

from agents.contract.calls import ReplicaOrigin
from agents.contract.documents import DesiredDocument, DesiredReplicaState
from portal.database.kept_queries import KeptSelect, ListOf
from portal.jobs.models import Replica
from portal.recent_values import RecentValues

_ORIGINS = KeptSelect(
    lambda replicas: (
        Replica.objects.filter(pk__in=replicas)
        .order_by("pk")
        .values_list("pk", "attempt__job_id", "attempt__job__request_id")
    ),
    ListOf(Replica._meta.pk),
)
# By the replica's id. They never change.
_known: RecentValues[str, ReplicaOrigin] = RecentValues(20_000)


def origins_of(desired: DesiredDocument) -> tuple[ReplicaOrigin, ...]:
    """Of replicas that the agent may have to prepare: it then remembers them."""
    stopped = DesiredReplicaState.STOP
    wanted = [r.id for r in desired.replicas if r.rendezvous is None and r.wish is not stopped]
    found = {pk: origin for pk in wanted if (origin := _known.get(pk))}
    if new := [UUID(pk) for pk in wanted if pk not in found]:
        read = {
            str(pk): ReplicaOrigin(str(pk), f"J-{job}", by) for pk, job, by in _ORIGINS.rows(new)
        }
        for pk, origin in read.items():
            _known.keep(pk, origin)
        found |= read
    return tuple(found[pk] for pk in wanted if pk in found)
