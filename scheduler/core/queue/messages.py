"""What a pass says of its decisions: why a place, why a stop, why a job stays behind."""

from scheduler.core.model.decisions import Preempt, PreemptCause
from scheduler.core.model.message import NOTHING, Said, say
from scheduler.core.model.reasons import Reason, ReasonCode
from scheduler.core.model.snapshot import WaitingJob
from scheduler.core.placement.search import Found
from scheduler.core.queue.reservation import Promise
from scheduler.core.queue.running import Victim
from scheduler.core.quota.reclaim import sentence

BEHIND = Reason(
    ReasonCode.PRIORITY,
    say("priority.behind"),
    {},
    say("unblocks.those_ahead"),
)
_WHY = {
    PreemptCause.PRIORITY: "has a higher priority",
    PreemptCause.ORDER: "is due before it",
    PreemptCause.MOVE: "needs its place; it fits elsewhere",
}


def why_here(found: Found) -> Said:
    """Of a place: how many devices, and what they are."""
    nodes = len({replica.node for replica in found.replicas})
    devices = [d for replica in found.replicas for d in replica.devices]
    carved = sum(1 for d in devices if not d.slice and d.profile)
    shared = sum(1 for d in devices if d.threads)
    reused = sum(1 for d in devices if d.slice)
    kinds = {"carved": carved, "ready": reused, "shared": shared}
    parts = [say(f"place.{kind}", number=number) for kind, number in kinds.items() if number]
    how = say("place.how", parts=parts) if parts else NOTHING
    if nodes == 1:
        return say("place.one_node", devices=len(devices), how=how)
    return say("place.nodes", devices=len(devices), how=how, nodes=nodes)


def preempt(victim: Victim, job: WaitingJob, cause: PreemptCause) -> Preempt:
    stops = victim.run.job
    told = sentence(stops, job) if cause is PreemptCause.RECLAIM else f"J-{job.id} {_WHY[cause]}"
    return Preempt(stops.id, job.id, cause, told)


def until_stopped(victims: list[Victim]) -> Reason:
    """Its place is held; those who are there stop first."""
    ids = [victim.run.job.id for victim in victims]
    jobs: Said | list[str] = [f"J-{key}" for key in ids[:3]]
    if len(ids) > 3:
        jobs = say("clause.more", first=jobs, more=len(ids) - 3)
    said = say("priority.stopping", jobs=jobs, number=len(ids))
    return Reason(ReasonCode.PRIORITY, said, {"stopping": ids}, say("unblocks.nothing_to_do"))


def reserved(promise: Promise) -> Reason:
    """What is free now is kept for a job ahead, or would not be free for it in time."""
    evidence = {"job": promise.job.id, "starts_at": promise.starts_at}
    said = say("reservation.kept", job=f"J-{promise.job.id}")
    return Reason(ReasonCode.RESERVATION, said, evidence, say("unblocks.shorter"))
