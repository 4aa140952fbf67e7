"""Why a job waits: the reason object that pages, REST and the command line all show.

REASON_KINDS is the one table of codes; everything that depends on a code alone is derived from it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from agents.contract.message import NO_MESSAGE, Message


class ReasonCode(StrEnum):
    """The dominant reason of a waiting job. Codes are stored and part of the REST API."""

    APPROVAL = "approval"
    QUOTA_USER = "quota_user"
    QUOTA_PROJECT = "quota_project"
    BUDGET = "budget"
    PENDING_LIMIT = "pending_limit"
    ARRAY_CAP = "array_cap"
    PRIORITY = "priority"
    RESOURCES = "resources"
    FRAGMENTATION = "fragmentation"
    TOPOLOGY = "topology"
    RESERVATION = "reservation"
    REPARTITION = "repartition"
    NODE_UNAVAILABLE = "node_unavailable"
    NODE_HOLDING = "node_holding"
    VOLUME = "volume"
    IMAGE = "image"
    DEPENDENCY = "dependency"
    BEGIN_TIME = "begin_time"
    HELD = "held"
    SECRET_MISSING = "secret_missing"  # noqa: S105 - no secret
    IMPOSSIBLE = "impossible"

    @property
    def kind(self) -> ReasonKind:
        """Its row of REASON_KINDS."""
        return REASON_KINDS[self]


class ReasonClass(StrEnum):
    """What helps: waiting, a change of the request, or an admin."""

    WAIT = "wait"
    CHANGE = "change"
    ASK = "ask"


@dataclass(frozen=True, slots=True)
class ReasonKind:
    """All that depends on a reason's code alone."""

    reason_class: ReasonClass
    label: str
    """The word of its badge, in English; pages translate it."""
    icon: str
    tone: str = "wait"
    """The colour of its badge. Waiting is normal and grey; a colour means that work is under way or
    that somebody must act."""
    is_alterable: bool = False
    """A changed request can help. Against the others only a decision, or time, does."""
    no_estimate: str = ""
    """Why its jobs have no start estimate: the last part of a key `no_estimate.…`. "" for jobs that
    wait for devices, now or from their begin time on: they are simulated."""
    alert: str = "Jobs wait for an admin"
    """The title of the admins' alert, of class ASK only; pages translate it."""

    @property
    def is_simulated(self) -> bool:
        return not self.no_estimate


_WAIT, _CHANGE, _ASK = ReasonClass.WAIT, ReasonClass.CHANGE, ReasonClass.ASK

REASON_KINDS: dict[ReasonCode, ReasonKind] = {
    ReasonCode.APPROVAL: ReasonKind(_ASK, "Approval", "ask", "ask", no_estimate="approval"),
    ReasonCode.QUOTA_USER: ReasonKind(
        _WAIT, "User quota", "coin", is_alterable=True, no_estimate="quota"
    ),
    ReasonCode.QUOTA_PROJECT: ReasonKind(
        _WAIT, "Project quota", "coin", is_alterable=True, no_estimate="quota"
    ),
    ReasonCode.BUDGET: ReasonKind(
        _CHANGE, "Budget", "coin", "warn", is_alterable=True, no_estimate="budget"
    ),
    ReasonCode.PENDING_LIMIT: ReasonKind(
        _WAIT, "Pending job limit", "layers", no_estimate="pending_limit"
    ),
    ReasonCode.ARRAY_CAP: ReasonKind(_WAIT, "Array cap", "layers", no_estimate="array_cap"),
    ReasonCode.PRIORITY: ReasonKind(_WAIT, "Behind other jobs", "layers", is_alterable=True),
    ReasonCode.RESOURCES: ReasonKind(_WAIT, "Insufficient resources", "layers", is_alterable=True),
    ReasonCode.FRAGMENTATION: ReasonKind(_WAIT, "Fragmentation", "frag", is_alterable=True),
    ReasonCode.TOPOLOGY: ReasonKind(_WAIT, "Topology", "frag", is_alterable=True),
    ReasonCode.RESERVATION: ReasonKind(_WAIT, "Reservation", "cal", is_alterable=True),
    ReasonCode.REPARTITION: ReasonKind(_WAIT, "Carving", "cut", "move"),
    ReasonCode.NODE_UNAVAILABLE: ReasonKind(
        _ASK,
        "Node unavailable",
        "alert",
        "ask",
        no_estimate="node_unavailable",
        alert="Jobs wait because nodes are out of service",
    ),
    ReasonCode.NODE_HOLDING: ReasonKind(
        _ASK,
        "Node holds back",
        "alert",
        "ask",
        no_estimate="node_holding",
        alert="Jobs wait because a node holds back after a restore",
    ),
    ReasonCode.VOLUME: ReasonKind(
        _ASK,
        "Volume unavailable",
        "alert",
        "ask",
        no_estimate="volume",
        alert="Jobs wait because no node offers their volume",
    ),
    ReasonCode.IMAGE: ReasonKind(
        _ASK,
        "Image does not fit",
        "alert",
        "ask",
        no_estimate="image",
        alert="Jobs wait because no node has a driver for their image",
    ),
    ReasonCode.DEPENDENCY: ReasonKind(_WAIT, "Dependency", "clock", no_estimate="dependency"),
    ReasonCode.BEGIN_TIME: ReasonKind(_WAIT, "Begin time", "cal"),
    ReasonCode.HELD: ReasonKind(
        _ASK, "Held", "stop", "ask", no_estimate="held", alert="Jobs are on hold"
    ),
    ReasonCode.SECRET_MISSING: ReasonKind(
        _CHANGE, "Secret missing", "alert", "warn", no_estimate="secret_missing"
    ),
    ReasonCode.IMPOSSIBLE: ReasonKind(
        _CHANGE, "Cannot run on this cluster", "alert", "warn", no_estimate="impossible"
    ),
}


@dataclass(frozen=True, slots=True)
class Reason:
    """Why a job waits, and what would unblock it."""

    code: ReasonCode
    message: Message
    evidence: dict[str, Any] = field(default_factory=dict)
    """The numbers behind the reason, JSON-able. Names are stored and part of the REST API."""
    unblocks_message: Message = NO_MESSAGE

    @property
    def sentence(self) -> str:
        """The message in English."""
        return self.message.text

    @property
    def unblocks(self) -> str:
        """The unblocks message in English."""
        return self.unblocks_message.text

    @property
    def reason_class(self) -> ReasonClass:
        return self.code.kind.reason_class

    def as_dict(self) -> dict[str, Any]:
        return {
            "code": str(self.code),
            "class": str(self.reason_class),
            "sentence": self.sentence,
            "said": self.message.as_dict(),
            "evidence": self.evidence,
            "unblocks": self.unblocks,
            "unblocks_said": self.unblocks_message.as_dict(),
        }
