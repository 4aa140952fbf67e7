"""The pull of an image as the loop sees it, for every runtime, and why one failed. Pure."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from agents.contract.message import Message
from agents.contract.pulls import ObservedPull, PullCause, pull_failure_message
from agents.facts.images import WantedImage

# Parts of what registries and engines answer, in lower case. The first match counts: an engine has
# no codes for these, and quotes the registry after words of its own.
_WORDS: tuple[tuple[PullCause, tuple[str, ...]], ...] = (
    (PullCause.DISK_FULL, ("no space left on device", "disk quota exceeded")),
    (PullCause.REGISTRY_BUSY, ("toomanyrequests", "too many requests", "rate limit")),
    (
        PullCause.NO_ACCESS,
        ("access denied", "denied:", "unauthorized", "authentication required", "no basic auth"),
    ),
    (
        PullCause.REGISTRY_AWAY,
        (
            "connection refused",
            "connection reset",
            "no such host",
            "timeout",
            "deadline exceeded",
            "request canceled",
            "network is unreachable",
            "no route to host",
            "server misbehaving",
            "eof",
            "http status: 5",
            "service unavailable",
            "bad gateway",
        ),
    ),
    (
        PullCause.NOT_FOUND,
        ("manifest unknown", "name unknown", "not found", "does not exist", "no matching manifest"),
    ),
)
# All that is left of a refusal without a body.
NO_ACCESS = "denied"


@dataclass
class ImageAbsent(Exception):
    """A replica's image is not on the node. Not a failure: it has to be pulled first."""

    image: WantedImage

    def __str__(self) -> str:
        return f"image {self.image} is not present"


@dataclass
class PullFailure(Exception):
    """A pull ended without its image."""

    cause: PullCause
    # The engine's own words.
    words: str = ""

    def __str__(self) -> str:
        return f"{self.cause}: {self.words}"

    def message(self, image: str) -> Message:
        return pull_failure_message(image, self.cause, self.words)


class PullRequest(Protocol):
    """One try to pull one image."""

    def run(self, report: Callable[[ObservedPull, bool], None]) -> None:
        """Returns once the image is present. `report` is called at every sign of life of the
        engine, from this thread; its second argument: whether the pull only waits for downloads of
        others. Raises PullFailure."""

    def cancel(self) -> None:
        """Give the pull up, from any thread, without waiting for `run`."""


def pull_cause(words: str) -> PullCause:
    """From what the engine answered."""
    text = words.lower().strip()
    if text == NO_ACCESS:
        return PullCause.NO_ACCESS
    for cause, parts in _WORDS:
        if any(part in text for part in parts):
            return cause
    return PullCause.ENGINE_REFUSAL
