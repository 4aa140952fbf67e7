"""The pull of a replica's image, as its node last reported it, in words."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from agents.contract.message import Message
from agents.contract.pulls import pull_failure_message
from portal.jobs.models import Replica
from scheduler.core.model.states import ReplicaStatus

WAITING = (ReplicaStatus.PREPARING, ReplicaStatus.READY)
MIB, GIB = 1 << 20, 1 << 30


@dataclass(frozen=True, slots=True)
class ReplicaPull:
    """A pull under way, or one that waits for its next try."""

    layers_done: int
    layers_total: int
    bytes_done: int
    """Compressed, as downloaded."""
    bytes_total: int | None
    """None until the size of every layer is known."""
    tries: int
    max_tries: int
    cause: str
    """Why the last try failed, a PullCause; "" while the image is being pulled."""
    message: Message

    @property
    def percent(self) -> int | None:
        if self.cause or not self.bytes_total:
            return None
        return min(100, 100 * self.bytes_done // self.bytes_total)

    @property
    def sentence(self) -> str:
        """In English."""
        return self.message.text


def replica_pull(replica: Replica, image: str) -> ReplicaPull | None:
    """None unless the replica waits for its image; a ready one for that of rank 0."""
    if not replica.pull or ReplicaStatus(replica.status) not in WAITING:
        return None
    stored = {"words": "", "cause": "", "bytes_total": None} | replica.pull
    return ReplicaPull(
        layers_done=stored["layers_done"],
        layers_total=stored["layers_total"],
        bytes_done=stored["bytes_done"],
        bytes_total=stored["bytes_total"],
        tries=stored["tries"],
        max_tries=stored["max_tries"],
        cause=stored["cause"],
        message=_message(stored, image),
    )


def _message(stored: Mapping[str, Any], image: str) -> Message:
    if stored["cause"]:
        return Message(
            "%(why)s. The node tries again soon: %(tries)s of %(max_tries)s tries have failed",
            why=pull_failure_message(image, stored["cause"], stored["words"]),
            tries=stored["tries"],
            max_tries=stored["max_tries"],
        )
    if not stored["layers_total"]:
        return Message("The image is being pulled: the registry has not listed its layers yet")
    layers = {"ready": stored["layers_done"], "layers": stored["layers_total"]}
    done, total = size_text(stored["bytes_done"]), stored["bytes_total"]
    if total is None:
        return Message(
            "The image is being pulled: %(done)s so far, %(ready)s of %(layers)s layers ready",
            done=done,
            **layers,
        )
    return Message(
        "The image is being pulled: %(done)s of %(total)s, %(ready)s of %(layers)s layers ready",
        done=done,
        total=size_text(total),
        **layers,
    )


def size_text(size: int) -> str:
    """Such as "3.4 GiB" or "512 MiB"; a part of a MiB counts as a whole one."""
    if size >= GIB:
        return f"{size / GIB:.1f} GiB"
    return f"{-(-size // MIB)} MiB"
