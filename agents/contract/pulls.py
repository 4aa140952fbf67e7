"""The pull of an image as a node reports it: how far it is, and why the last try failed."""

from dataclasses import dataclass, field
from enum import StrEnum

from agents.contract.codec import rule
from agents.contract.message import Message, verbatim

MAX_BYTES = 2**53
MAX_LAYERS = 4_096
# Of the engine's own words.
MAX_WORDS = 512
_BYTES = rule(minimum=0, maximum=MAX_BYTES)
_LAYERS = rule(minimum=0, maximum=MAX_LAYERS)


class PullCause(StrEnum):
    """Why a pull failed."""

    NOT_FOUND = "not_found"
    NO_ACCESS = "no_access"
    REGISTRY_AWAY = "registry_away"
    REGISTRY_BUSY = "registry_busy"
    DISK_FULL = "disk_full"
    ENGINE_AWAY = "engine_away"
    STALLED = "stalled"
    ENGINE_REFUSAL = "engine_refusal"


# These may pass by themselves, so the node tries again.
PASSING_CAUSES = frozenset(
    {
        PullCause.REGISTRY_AWAY,
        PullCause.REGISTRY_BUSY,
        PullCause.ENGINE_AWAY,
        PullCause.STALLED,
    }
)

CAUSE_SENTENCES: dict[PullCause, str] = {
    PullCause.NOT_FOUND: "The registry has no image %(image)s: check its name and tag",
    PullCause.NO_ACCESS: (
        "The registry gives no access to %(image)s, or has no such image: check the name, or ask"
        " an admin of the project to set a credential for the registry"
    ),
    PullCause.REGISTRY_AWAY: "The registry of %(image)s does not answer",
    PullCause.REGISTRY_BUSY: "The registry of %(image)s accepts no more pulls for now",
    PullCause.DISK_FULL: "The disk of the node is too full for %(image)s",
    PullCause.ENGINE_AWAY: "The container engine broke off the pull of %(image)s",
    PullCause.STALLED: "The pull of %(image)s made no progress for too long",
    PullCause.ENGINE_REFUSAL: "The image %(image)s cannot be pulled",
}


@dataclass(frozen=True, slots=True)
class ObservedPull:
    """How far the pull of a replica's image is. Layers that the node has already count as done."""

    layers_done: int = field(default=0, metadata=_LAYERS)
    layers_total: int = field(default=0, metadata=_LAYERS)
    # Compressed, as downloaded.
    bytes_done: int = field(default=0, metadata=_BYTES)
    # None until the size of every layer is known.
    bytes_total: int | None = field(default=None, metadata=_BYTES)
    # The number of this try, from 1, and how many there are at most.
    tries: int = field(default=1, metadata=rule(minimum=1, maximum=1_000))
    max_tries: int = field(default=1, metadata=rule(minimum=1, maximum=1_000))
    # A PullCause while the node waits for the next try, and the engine's words; else empty.
    cause: str = field(default="", metadata=rule(max_length=32))
    words: str = field(default="", metadata=rule(max_length=MAX_WORDS))


def pull_failure_message(image: str, cause: str, words: str) -> Message:
    """A sentence for people. `cause` may be one of a newer agent."""
    known = cause if cause in list(PullCause) else PullCause.ENGINE_REFUSAL
    sentence = Message(CAUSE_SENTENCES[PullCause(known)], image=image)
    return Message("clause.colon", first=sentence, then=verbatim(words)) if words else sentence
