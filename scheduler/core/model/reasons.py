"""Why a job waits: the reason object that pages, REST and the command line all show."""

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
    PRIORITY = "priority"
    RESOURCES = "resources"
    FRAGMENTATION = "fragmentation"
    TOPOLOGY = "topology"
    RESERVATION = "reservation"
    REPARTITION = "repartition"
    NODE_UNAVAILABLE = "node_unavailable"
    DEPENDENCY = "dependency"
    BEGIN_TIME = "begin_time"
    HELD = "held"
    IMPOSSIBLE = "impossible"


class ReasonClass(StrEnum):
    """What helps: waiting, a change of the request, or an admin."""

    WAIT = "wait"
    CHANGE = "change"
    ASK = "ask"


REASON_CLASSES: dict[ReasonCode, ReasonClass] = {
    ReasonCode.APPROVAL: ReasonClass.ASK,
    ReasonCode.QUOTA_USER: ReasonClass.WAIT,
    ReasonCode.QUOTA_PROJECT: ReasonClass.WAIT,
    ReasonCode.BUDGET: ReasonClass.CHANGE,
    ReasonCode.PENDING_LIMIT: ReasonClass.WAIT,
    ReasonCode.PRIORITY: ReasonClass.WAIT,
    ReasonCode.RESOURCES: ReasonClass.WAIT,
    ReasonCode.FRAGMENTATION: ReasonClass.WAIT,
    ReasonCode.TOPOLOGY: ReasonClass.WAIT,
    ReasonCode.RESERVATION: ReasonClass.WAIT,
    ReasonCode.REPARTITION: ReasonClass.WAIT,
    ReasonCode.NODE_UNAVAILABLE: ReasonClass.ASK,
    ReasonCode.DEPENDENCY: ReasonClass.WAIT,
    ReasonCode.BEGIN_TIME: ReasonClass.WAIT,
    ReasonCode.HELD: ReasonClass.ASK,
    ReasonCode.IMPOSSIBLE: ReasonClass.CHANGE,
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
        return REASON_CLASSES[self.code]

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
