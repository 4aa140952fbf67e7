"""What a pass says of its decisions: why a place, why a stop, why a job stays behind."""

from scheduler.core.decisions import Preempt, PreemptCause
from scheduler.core.placement.place import Found
from scheduler.core.queue.reservation import Promise
from scheduler.core.queue.running import Victim
from scheduler.core.quota.reclaim import sentence
from scheduler.core.reasons import Reason, ReasonCode
from scheduler.core.values import WaitingJob

BEHIND = Reason(
    ReasonCode.PRIORITY,
    "A job ahead of it waits, and nobody may pass it",
    {},
    "It starts when those ahead of it have started",
)
_WHY = {
    PreemptCause.PRIORITY: "has a higher priority",
    PreemptCause.ORDER: "is due before it",
    PreemptCause.MOVE: "needs its place; it fits elsewhere",
}


def why_here(found: Found) -> str:
    """Of a place: how many devices, and what they are."""
    nodes = len({replica.node for replica in found.replicas})
    devices = [d for replica in found.replicas for d in replica.devices]
    carved = sum(1 for d in devices if not d.slice and d.profile)
    shared = sum(1 for d in devices if d.threads)
    reused = sum(1 for d in devices if d.slice)
    parts = [f"{carved} carved"] * bool(carved) + [f"{reused} ready"] * bool(reused)
    parts += [f"{shared} shared"] * bool(shared)
    told = f" ({', '.join(parts)})" if parts else ""
    word = "device" if len(devices) == 1 else "devices"
    where = "one node" if nodes == 1 else f"{nodes} nodes"
    return f"{len(devices)} {word}{told} on {where}"


def preempt(victim: Victim, job: WaitingJob, cause: PreemptCause) -> Preempt:
    stops = victim.run.job
    told = sentence(stops, job) if cause is PreemptCause.RECLAIM else f"J-{job.id} {_WHY[cause]}"
    return Preempt(stops.id, job.id, cause, told)


def until_stopped(victims: list[Victim]) -> Reason:
    """Its place is held; those who are there stop first."""
    ids = [victim.run.job.id for victim in victims]
    names = ", ".join(f"J-{key}" for key in ids[:3])
    more = f" and {len(ids) - 3} more" if len(ids) > 3 else ""
    verb = "has" if len(ids) == 1 else "have"
    told = f"It waits until {names}{more} {verb} stopped"
    return Reason(ReasonCode.PRIORITY, told, {"stopping": ids}, "Nothing to do")


def reserved(promise: Promise) -> Reason:
    """What is free now is kept for a job ahead, or would not be free for it in time."""
    evidence = {"job": promise.job.id, "starts_at": promise.starts_at}
    told = f"It would delay J-{promise.job.id}, which is ahead and has a place reserved"
    unblocks = "A shorter time limit may let it start before; else it starts after"
    return Reason(ReasonCode.RESERVATION, told, evidence, unblocks)
