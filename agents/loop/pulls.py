"""Pulls the images that replicas wait for, beside everything else that the node does.

One pull for each image, however many replicas wait for it, in a thread of its own. It is given up
when the last of them stops waiting.
"""

import logging
import threading
import time
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, replace
from functools import partial

from agents.contract.documents import DesiredReplica
from agents.contract.pulls import PASSING_CAUSES, ObservedPull, PullCause
from agents.contract.registries import RegistryCredential
from agents.facts.failures import ReplicaFailure
from agents.facts.images import WantedImage
from agents.runtime.base import Runtime
from agents.runtime.image_pull import ImageAbsent, PullFailure, PullRequest

FIRST_PAUSE_SECONDS, MAX_PAUSE_SECONDS = 5.0, 120.0
# How often the node reports the bytes of a pull: each report is a whole document.
REPORT_SECONDS = 2.0

log = logging.getLogger("agents.loop.pulls")


@dataclass
class _Pull:
    """One image: a request under way, a pause before the next one, or a failure."""

    shown: ObservedPull
    # Of its project, for every try.
    credential: RegistryCredential | None = None
    request: PullRequest | None = None
    # As the request last reported it; `shown` follows every REPORT_SECONDS.
    latest: ObservedPull | None = None
    # When the engine last gave a sign of life; None while downloads of others come first.
    alive_at: float | None = None
    next_try_at: float = 0.0
    failure: PullFailure | None = None


class ImagePulls:
    """The pulls of one node. `changed` is called when one has ended or has news to report.

    `clock`: seconds that only grow. `start_thread` runs a pull beside the caller."""

    def __init__(
        self,
        runtime: Runtime,
        changed: Callable[[], None],
        *,
        stall_seconds: float,
        max_tries: int,
        clock: Callable[[], float] = time.monotonic,
        start_thread: Callable[[Callable[[], None]], None],
    ) -> None:
        self._runtime = runtime
        self._changed = changed
        self._stall_seconds = stall_seconds
        self._max_tries = max_tries
        self._clock = clock
        self._start_thread = start_thread
        self._pulls: dict[WantedImage, _Pull] = {}
        self._shown_at = float("-inf")
        self._closed = False
        self._lock = threading.Lock()

    def require(self, image: WantedImage, sign_in: Callable[[], RegistryCredential | None]) -> None:
        """Begin its pull and raise ImageAbsent, unless a replica can be prepared with it.

        `sign_in` is asked for the credential of its project only then."""
        try:
            self._runtime.require_image(image)
        except ImageAbsent:
            self.begin(image, sign_in())
            raise

    def begin(self, image: WantedImage, credential: RegistryCredential | None = None) -> None:
        """Pull it. No effect if that is under way or has failed."""
        with self._lock:
            if image in self._pulls or self._closed:
                return
            shown = ObservedPull(max_tries=self._max_tries)
            self._pulls[image] = pull = _Pull(shown, credential)
            request = self._next_try(image, pull)
        self._start(image, request)

    def settle(self, waiting: Collection[WantedImage]) -> None:
        """Give up what no replica waits for and what has stalled, and begin the tries that are
        due. `waiting`: the images that replicas wait for."""
        now, due = self._clock(), []
        with self._lock:
            for image in [image for image in self._pulls if image not in waiting]:
                pull = self._pulls.pop(image)
                if pull.request is not None:
                    log.info("pull_cancelled", extra={"image": image.name})
                    pull.request.cancel()
            for image, pull in self._pulls.items():
                if pull.request is not None and self._is_stalled(pull, now):
                    pull.request.cancel()
                    self._failed(image, pull, PullFailure(PullCause.STALLED))
                elif pull.request is None and pull.failure is None and now >= pull.next_try_at:
                    due.append((image, self._next_try(image, pull)))
            self._show(now)
        for image, request in due:
            self._start(image, request)

    def progress(self) -> dict[WantedImage, ObservedPull]:
        """By image, of those that are being pulled or wait for their next try."""
        with self._lock:
            return {image: p.shown for image, p in self._pulls.items() if p.failure is None}

    def progress_of(
        self, replicas: Iterable[DesiredReplica], image_of: Callable[[DesiredReplica], WantedImage]
    ) -> dict[str, ObservedPull]:
        """`progress` by replica."""
        found = self.progress()
        images = ((r.id, image_of(r)) for r in replicas) if found else ()
        return {replica: found[image] for replica, image in images if image in found}

    def failure(self, image: WantedImage) -> ReplicaFailure | None:
        """Why it cannot be pulled, once no further try is made."""
        with self._lock:
            pull = self._pulls.get(image)
            if pull is None or pull.failure is None:
                return None
            message = pull.failure.message(image.name)
            return ReplicaFailure("image_pull", message.text, message)

    def seconds_until_due(self, limit: float) -> float:
        """Until the next try, or until there is progress to report, at most `limit`."""
        now = self._clock()
        with self._lock:
            pulls = self._pulls.values()
            waits = [p.next_try_at - now for p in pulls if not (p.request or p.failure)]
            if any(p.latest and p.latest != p.shown for p in pulls):
                waits.append(self._shown_at + REPORT_SECONDS - now)
        return max(0.0, min([limit, *waits]))

    def close(self) -> None:
        """Give up all; the next agent begins them again, and the engine keeps complete layers."""
        with self._lock:
            self._closed = True
        self.settle(())

    def _next_try(self, image: WantedImage, pull: _Pull) -> PullRequest:
        tries = pull.shown.tries + 1 if pull.shown.cause else pull.shown.tries
        pull.shown = ObservedPull(tries=tries, max_tries=self._max_tries)
        pull.latest, pull.alive_at = None, self._clock()
        pull.request = request = self._runtime.new_pull(image, pull.credential)
        return request

    def _start(self, image: WantedImage, request: PullRequest) -> None:
        self._start_thread(lambda: self._run(image, request))

    def _run(self, image: WantedImage, request: PullRequest) -> None:
        failure: PullFailure | None = None
        try:
            request.run(partial(self._report, image, request))
        except PullFailure as failed:
            failure = failed
        except Exception as error:
            log.exception("pull_failed", extra={"image": image.name})
            failure = PullFailure(PullCause.ENGINE_REFUSAL, str(error))
        with self._lock:
            pull = self._pulls.get(image)
            if pull is None or pull.request is not request:
                return  # it was given up
            if failure is None:
                del self._pulls[image]
            else:
                self._failed(image, pull, failure)
        self._changed()

    def _report(
        self, image: WantedImage, request: PullRequest, progress: ObservedPull, is_queued: bool
    ) -> None:
        now = self._clock()
        with self._lock:
            pull = self._pulls.get(image)
            if pull is None or pull.request is not request:
                return
            pull.alive_at = None if is_queued else now
            pull.latest = replace(progress, tries=pull.shown.tries, max_tries=self._max_tries)
            has_news = self._show(now)
        if has_news:
            self._changed()

    def _show(self, now: float) -> bool:
        """Take over what the requests have reported, unless that was done a moment ago. Whether
        that changes anything. Holds the lock."""
        fresh = [p for p in self._pulls.values() if p.latest and p.latest != p.shown]
        if not fresh or now - self._shown_at < REPORT_SECONDS:
            return False
        self._shown_at = now
        for pull in fresh:
            pull.shown = pull.latest or pull.shown
        return True

    def _is_stalled(self, pull: _Pull, now: float) -> bool:
        return pull.alive_at is not None and now - pull.alive_at > self._stall_seconds

    def _failed(self, image: WantedImage, pull: _Pull, failure: PullFailure) -> None:
        """Plan another try, if that may help and one is left. Holds the lock."""
        log.info("pull_failed", extra={"image": image.name, "why": str(failure)})
        pull.request = pull.latest = None
        tries = pull.shown.tries
        if failure.cause not in PASSING_CAUSES or tries >= self._max_tries:
            pull.failure = failure
            return
        pause = min(MAX_PAUSE_SECONDS, FIRST_PAUSE_SECONDS * 2 ** (tries - 1))
        pull.next_try_at = self._clock() + pause
        pull.shown = replace(pull.shown, cause=str(failure.cause), words=failure.words)
