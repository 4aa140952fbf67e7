"""Messages and reasons of a pass: why a placement, and why a job stays in the queue."""

from agents.contract.message import NO_MESSAGE, Message
from scheduler.core.model.message_templates import make_message
from scheduler.core.model.reasons import Reason, ReasonCode
from scheduler.core.placement.search import GangPlacement
from scheduler.core.queue.reservation import JobReservation
from scheduler.core.queue.running import PreemptibleJob

BEHIND_OTHERS = Reason(
    ReasonCode.PRIORITY,
    make_message("priority.behind"),
    {},
    make_message("unblocks.those_ahead"),
)

OWN_DEVICES = Reason(
    ReasonCode.PRIORITY,
    make_message("priority.own_devices"),
    {},
    make_message("unblocks.nothing_to_do"),
)


def placement_message(placement: GangPlacement) -> Message:
    """How many devices the gang gets, and of which kind."""
    nodes = len({replica.node for replica in placement.replicas})
    devices = [d for replica in placement.replicas for d in replica.devices]
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


def waits_for_stops(stopping: list[PreemptibleJob]) -> Reason:
    """The job has its place; the jobs that occupy it have to stop first."""
    ids = [job.run.job.id for job in stopping]
    jobs: Message | list[str] = [f"J-{key}" for key in ids[:3]]
    if len(ids) > 3:
        jobs = Message("clause.more", first=jobs, more=len(ids) - 3)
    message = make_message("priority.stopping", jobs=jobs, number=len(ids))
    unblocks = make_message("unblocks.nothing_to_do")
    return Reason(ReasonCode.PRIORITY, message, {"stopping": ids}, unblocks)


def waits_for_reservation(reservation: JobReservation) -> Reason:
    """The free devices are reserved for a job ahead, or would not be free for it in time."""
    evidence = {"job": reservation.job.id, "starts_at": reservation.starts_at}
    message = make_message("reservation.kept", job=f"J-{reservation.job.id}")
    return Reason(ReasonCode.RESERVATION, message, evidence, make_message("unblocks.shorter"))
