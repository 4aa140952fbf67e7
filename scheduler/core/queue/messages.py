"""What a pass says of its decisions: why a place, why a stop, why a job stays behind."""

from scheduler.core.model.decisions import Preemption, PreemptionCause
from scheduler.core.model.message import NO_MESSAGE, Message, make_message
from scheduler.core.model.reasons import Reason, ReasonCode
from scheduler.core.model.snapshot import WaitingJob
from scheduler.core.placement.search import GangPlacement
from scheduler.core.queue.reservation import JobReservation
from scheduler.core.queue.running import PreemptibleJob
from scheduler.core.quota.reclaim import reclaim_sentence

BEHIND_OTHERS = Reason(
    ReasonCode.PRIORITY,
    make_message("priority.behind"),
    {},
    make_message("unblocks.those_ahead"),
)
_WHY = {
    PreemptionCause.PRIORITY: "has a higher priority",
    PreemptionCause.ORDER: "is due before it",
    PreemptionCause.MOVE: "needs its place; it fits elsewhere",
}


def placement_message(found: GangPlacement) -> Message:
    """Of a place: how many devices, and what they are."""
    nodes = len({replica.node for replica in found.replicas})
    devices = [d for replica in found.replicas for d in replica.devices]
    carved = sum(1 for d in devices if not d.slice and d.profile)
    shared = sum(1 for d in devices if d.threads)
    reused = sum(1 for d in devices if d.slice)
    kinds = {"carved": carved, "ready": reused, "shared": shared}
    parts = [
        make_message(f"place.{kind}", number=number) for kind, number in kinds.items() if number
    ]
    how = make_message("place.how", parts=parts) if parts else NO_MESSAGE
    if nodes == 1:
        return make_message("place.one_node", devices=len(devices), how=how)
    return make_message("place.nodes", devices=len(devices), how=how, nodes=nodes)


def preemption(victim: PreemptibleJob, job: WaitingJob, cause: PreemptionCause) -> Preemption:
    stops = victim.run.job
    told = (
        reclaim_sentence(stops, job)
        if cause is PreemptionCause.RECLAIM
        else f"J-{job.id} {_WHY[cause]}"
    )
    return Preemption(stops.id, job.id, cause, told)


def waits_for_stops(victims: list[PreemptibleJob]) -> Reason:
    """Its place is held; those who are there stop first."""
    ids = [victim.run.job.id for victim in victims]
    jobs: Message | list[str] = [f"J-{key}" for key in ids[:3]]
    if len(ids) > 3:
        jobs = make_message("clause.more", first=jobs, more=len(ids) - 3)
    said = make_message("priority.stopping", jobs=jobs, number=len(ids))
    return Reason(
        ReasonCode.PRIORITY, said, {"stopping": ids}, make_message("unblocks.nothing_to_do")
    )


def waits_for_reservation(promise: JobReservation) -> Reason:
    """What is free now is kept for a job ahead, or would not be free for it in time."""
    evidence = {"job": promise.job.id, "starts_at": promise.starts_at}
    said = make_message("reservation.kept", job=f"J-{promise.job.id}")
    return Reason(ReasonCode.RESERVATION, said, evidence, make_message("unblocks.shorter"))
