"""The images of a simulated engine: pulls take time, and only few of them download at once."""

from collections.abc import Callable

from agents.contract.pulls import ObservedPull, PullCause
from agents.drill.turns import Turns
from agents.facts.images import WantedImage
from agents.runtime.image_pull import ImageAbsent, PullFailure

# At a time, as dockerd has it (`max-concurrent-downloads`); the others wait.
DOWNLOADS = 3
# Only images of this registry have to be pulled.
REGISTRY = "registry.example/"
PULLED_IMAGES = tuple(f"{REGISTRY}{number}:1" for number in range(8))


class SimulatedImages:
    """They outlive the agents. `seconds` returns how long an image downloads."""

    def __init__(self, turns: Turns, seconds: Callable[[], float]) -> None:
        self.turns = turns
        self.present: set[str] = set()
        # Requests that the engine works on, the oldest first.
        self.pulls: list[SimulatedPull] = []
        # No registry gives a sign of life.
        self.is_silent = False
        # The engine answers no request.
        self.is_away = False
        # What the registry answers instead of images.
        self.refusal: PullCause | None = None
        self._seconds = seconds
        # Until an image is complete. What has been downloaded is kept.
        self._left: dict[str, float] = {}

    def require(self, image: WantedImage) -> None:
        """Raises ImageAbsent."""
        if image.name.startswith(REGISTRY) and image.name not in self.present:
            raise ImageAbsent(image)

    def new_pull(self, image: WantedImage) -> "SimulatedPull":
        return SimulatedPull(self, image.name)

    def second_passes(self) -> None:
        """The oldest pulls download."""
        if self.is_silent or self.is_away:
            return
        for pull in self.pulls[:DOWNLOADS]:
            self._left[pull.image] = self._left.get(pull.image, self._seconds()) - 1
            if self._left[pull.image] <= 0:
                self._complete(pull)

    def arrive(self) -> None:
        """All that is being pulled is there."""
        for pull in list(self.pulls):
            self._complete(pull)

    def break_off(self) -> None:
        """The engine ends, and every request with it."""
        for pull in self.pulls:
            pull.failure = PullFailure(PullCause.ENGINE_AWAY, "the connection is closed")
        self.pulls.clear()

    def prune(self) -> None:
        """Nothing that was pulled is there any more."""
        self.present.clear()
        self._left.clear()

    def is_queued(self, pull: "SimulatedPull") -> bool:
        return pull not in self.pulls[:DOWNLOADS]

    def open(self, pull: "SimulatedPull") -> None:
        """Raises PullFailure."""
        if self.is_away:
            raise PullFailure(PullCause.ENGINE_AWAY, "no engine responds")
        if self.refusal is not None:
            raise PullFailure(self.refusal, "the image cannot be pulled")
        self.pulls.append(pull)

    def close(self, pull: "SimulatedPull") -> None:
        if pull in self.pulls:
            self.pulls.remove(pull)

    def _complete(self, pull: "SimulatedPull") -> None:
        self.present.add(pull.image)
        self._left.pop(pull.image, None)
        self.close(pull)


class SimulatedPull:
    """A request of the agent. The engine works on it for as long as the agent keeps it open."""

    def __init__(self, images: SimulatedImages, image: str) -> None:
        self.image = image
        self.failure: PullFailure | None = None
        self._images = images
        self._is_cancelled = False

    def run(self, report: Callable[[ObservedPull, bool], None]) -> None:
        images = self._images
        if not self._is_cancelled:
            images.open(self)
        seconds = 0
        try:
            while self in images.pulls:
                if not images.is_silent:
                    seconds += 1
                    report(ObservedPull(layers_total=1, bytes_done=seconds), images.is_queued(self))
                images.turns.wait()
        finally:
            # Also of an agent that dies: its connection is closed.
            images.close(self)
        if self.failure is not None:
            raise self.failure
        if self.image not in images.present:
            # As the real one finds when its stream has ended.
            raise PullFailure(PullCause.NOT_FOUND, f"no such image: {self.image}")

    def cancel(self) -> None:
        self._is_cancelled = True
        self._images.close(self)
