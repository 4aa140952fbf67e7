"""Reasons and start estimates of waiting jobs: every code of the closed list."""

from datetime import datetime
from typing import Any

from agents.contract.image_needs import needed_driver
from agents.contract.message import Message, join_clauses
from agents.contract.moments import write_moment
from portal.demo.scale.size import SeededRandom
from portal.planning.estimates import estimate_as_dict
from portal.planning.reason_additions import BOUND
from scheduler.core.explain.bounds import WaitBound
from scheduler.core.model.decisions import Estimate
from scheduler.core.model.message_templates import NODE_HOLDING, make_message
from scheduler.core.model.reasons import Reason, ReasonCode

SECONDS_PER_DAY = 86_400
# How frequent each code is among waiting jobs that need no approval. A job that can never run is
# not queued.
WEIGHTS = {
    ReasonCode.RESOURCES: 40,
    ReasonCode.PRIORITY: 22,
    ReasonCode.FRAGMENTATION: 8,
    ReasonCode.QUOTA_PROJECT: 8,
    ReasonCode.QUOTA_USER: 4,
    ReasonCode.RESERVATION: 4,
    ReasonCode.TOPOLOGY: 4,
    ReasonCode.DEPENDENCY: 3,
    ReasonCode.ARRAY_CAP: 1,
    ReasonCode.BUDGET: 2,
    ReasonCode.BEGIN_TIME: 2,
    ReasonCode.HELD: 1,
    ReasonCode.SECRET_MISSING: 1,
    ReasonCode.REPARTITION: 1,
    ReasonCode.NODE_UNAVAILABLE: 1,
    ReasonCode.NODE_HOLDING: 1,
    ReasonCode.VOLUME: 1,
    ReasonCode.IMAGE: 1,
}


def random_code(rng: SeededRandom) -> ReasonCode:
    return rng.random.choices([*WEIGHTS], [*WEIGHTS.values()])[0]


def random_reason(
    rng: SeededRandom, code: ReasonCode, *, project: str, user: str, device: str, need: int
) -> dict[str, Any]:
    """A reason as the planner stores it, with its evidence."""
    free = rng.random.randint(0, max(0, need - 1))
    needed = {"needed": need, "device": device, "free": free}
    holds = make_message("quota.may_hold", whose=project, limit="8")
    left = make_message("quota.left", left="0.5", needed=str(need))
    limits = {"limit": "500", "used": "480", "held": "15", "left": "5", "needed": "40"}
    messages: dict[ReasonCode, Message] = {
        ReasonCode.APPROVAL: make_message("approval.high", project=project),
        ReasonCode.RESOURCES: make_message("resources.devices", **needed),
        ReasonCode.PRIORITY: make_message("priority.behind"),
        ReasonCode.FRAGMENTATION: make_message("fragmentation.apart", device=device, free=need),
        ReasonCode.QUOTA_PROJECT: join_clauses(holds, left),
        ReasonCode.QUOTA_USER: join_clauses(
            make_message(
                "quota.may_hold",
                whose=make_message("user.in_project", user=user, project=project),
                limit=2,
            ),
            left,
        ),
        ReasonCode.RESERVATION: make_message(
            "reservation.kept", job=f"J-{rng.random.randint(1, 900)}"
        ),
        ReasonCode.TOPOLOGY: make_message("topology.apart", device=device, free=need),
        ReasonCode.DEPENDENCY: make_message("dependency", jobs=f"J-{rng.random.randint(1, 900)}"),
        ReasonCode.ARRAY_CAP: make_message("array_cap.full", array="A-1", most=10),
        ReasonCode.BUDGET: make_message(
            "budget.used_up", whose=project, day=write_moment(_budget_end(rng.now)), **limits
        ),
        ReasonCode.BEGIN_TIME: make_message("begin_time"),
        ReasonCode.SECRET_MISSING: make_message("secret.deleted", name="HF_TOKEN"),
        ReasonCode.HELD: make_message("held", because="data is still copied"),
        ReasonCode.REPARTITION: make_message("repartition.merging"),
        ReasonCode.NODE_UNAVAILABLE: make_message(
            "node_unavailable.all",
            why=make_message("node.cordoned", node="gpu-0001", why="new driver"),
        ),
        ReasonCode.NODE_HOLDING: make_message(
            "node_unavailable.all", why=make_message(NODE_HOLDING, node="gpu-0002")
        ),
        ReasonCode.VOLUME: make_message(
            "volume.nowhere",
            why=make_message("node.no_volume", node="gpu-0003", root="datasets"),
        ),
        ReasonCode.IMAGE: make_message(
            "image.nowhere",
            why=make_message(
                "node.image_unfit",
                node="gpu-0004",
                has=make_message(
                    "node.driver", cuda="12.2", driver="535.104", architecture="amd64"
                ),
                need=needed_driver("cuda>=12.4"),
            ),
        ),
    }
    numbers = needed if code in (ReasonCode.RESOURCES, ReasonCode.FRAGMENTATION) else {}
    reason = Reason(code, messages[code], dict(numbers)).as_dict()
    return reason | _bound(code, project, rng.now, need)


def _bound(code: ReasonCode, project: str, now: datetime, need: int) -> dict[str, Any]:
    """When a wait for a limit or another job ends: the more it needs, the later."""
    at = int(now.timestamp()) + need * 3_600
    match code:
        case ReasonCode.QUOTA_PROJECT:
            bound = WaitBound.by_time(at, "bound.quota", job="J-12 (train)")
        case ReasonCode.QUOTA_USER:
            bound = WaitBound.by_time(
                at, "bound.quota_shared", job="J-12 (train)", is_certain=False
            )
        case ReasonCode.BUDGET:
            bound = WaitBound.by_time(_budget_end(now), "bound.budget", whose=project)
        case ReasonCode.DEPENDENCY:
            bound = WaitBound.by_time(at, "bound.dependency", job="J-12")
        case _:
            return {}
    return {BOUND: bound.as_dict()}


def _budget_end(now: datetime) -> int:
    """In a month, at the end of a day."""
    day = int(now.timestamp()) // SECONDS_PER_DAY
    return (day + 30) * SECONDS_PER_DAY


def random_estimate(rng: SeededRandom, now: datetime) -> dict[str, Any]:
    low = int(now.timestamp()) + rng.random.randint(60, 7_200)
    middle = low + rng.random.randint(60, 5_400)
    high = middle + rng.random.randint(60, 10_800)
    basis = make_message("basis.forecasts", runs="64", ended="5,804", limits="3,100")
    return estimate_as_dict(Estimate(low, middle, high, basis))
