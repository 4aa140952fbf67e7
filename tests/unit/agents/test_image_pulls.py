"""The pulls of a node: one for each image, with progress, given up at once, tried again after a
pause, and a cause in words when there is no further try."""

from itertools import pairwise

import pytest

from agents.contract.pulls import ObservedPull, PullCause
from agents.facts.images import WantedImage
from agents.loop.pulls import MAX_PAUSE_SECONDS, REPORT_SECONDS, ImagePulls
from agents.runtime.image_pull import PullFailure, pull_cause
from agents.runtime.pull_progress import PullTally

IMAGE = WantedImage("registry.example/train:1", "vision")
OTHER = WantedImage("registry.example/eval:1", "vision")
STALL_SECONDS = 300.0
AWAY = PullFailure(PullCause.REGISTRY_AWAY, "connection refused")


class Engine:
    """`requests`: every try, in order. A try ends when its outcome is set and it is run."""

    def __init__(self):
        self.requests = []

    def new_pull(self, image, credential):
        self.requests.append(Request(image))
        return self.requests[-1]


class Request:
    def __init__(self, image):
        self.image, self.cancelled, self.outcome = image, 0, None
        self.report = None

    def run(self, report):
        self.report = report
        if self.outcome is not None:
            raise self.outcome

    def cancel(self):
        self.cancelled += 1


class World:
    """A clock that is moved by hand, and threads that a test runs."""

    def __init__(self, max_tries=6):
        self.now, self.news, self.threads = 0.0, 0, []
        self.engine = Engine()
        self.pulls = ImagePulls(
            self.engine,
            self.changed,
            stall_seconds=STALL_SECONDS,
            max_tries=max_tries,
            clock=lambda: self.now,
            start_thread=self.threads.append,
        )

    def changed(self):
        self.news += 1

    def fail(self, failure):
        """The try under way fails."""
        self.engine.requests[-1].outcome = failure
        self.threads.pop(0)()

    def reporting(self, image=IMAGE):
        """A try that runs: how it reports progress."""
        self.pulls.begin(image)
        request = self.engine.requests[-1]
        request.run(lambda *_: None)
        return request, lambda progress, is_queued=False: self.pulls._report(
            image, request, progress, is_queued
        )


def test_several_replicas_wait_for_one_pull():
    world = World()
    for _ in range(3):
        world.pulls.begin(IMAGE)
    world.pulls.begin(OTHER)
    assert [request.image for request in world.engine.requests] == [IMAGE, OTHER]


def test_a_pull_is_given_up_with_the_last_replica_that_waits_and_only_that_one():
    world = World()
    world.pulls.begin(IMAGE)
    world.pulls.begin(OTHER)
    world.pulls.settle({OTHER})
    assert [request.cancelled for request in world.engine.requests] == [1, 0]
    assert world.pulls.progress().keys() == {OTHER}
    world.threads[0]()  # its thread ends later and changes nothing
    assert world.pulls.failure(IMAGE) is None
    world.pulls.begin(IMAGE)
    assert [request.image for request in world.engine.requests] == [IMAGE, OTHER, IMAGE]


def test_a_pull_that_is_complete_is_forgotten_and_wakes_the_loop():
    world = World()
    world.pulls.begin(IMAGE)
    world.threads.pop()()
    assert (world.pulls.progress(), world.pulls.failure(IMAGE), world.news) == ({}, None, 1)


def test_pauses_between_tries_grow_and_the_last_failure_is_kept():
    world, tried_at = World(), [0.0]
    world.pulls.begin(IMAGE)
    for number in range(1, 6):
        world.fail(AWAY)
        shown = world.pulls.progress()[IMAGE]
        assert (shown.tries, shown.max_tries, shown.cause) == (number, 6, "registry_away")
        assert shown.words == "connection refused"
        pause = world.pulls.seconds_until_due(1_000.0)
        world.now += pause - 0.1
        world.pulls.settle({IMAGE})
        assert len(world.engine.requests) == number, "not before its time"
        world.now += 0.1
        world.pulls.settle({IMAGE})
        assert world.pulls.progress()[IMAGE] == ObservedPull(tries=number + 1, max_tries=6)
        tried_at.append(world.now)
    pauses = [later - earlier for earlier, later in pairwise(tried_at)]
    assert pauses == pytest.approx([5, 10, 20, 40, 80]) and max(pauses) <= MAX_PAUSE_SECONDS
    world.fail(AWAY)
    failure = world.pulls.failure(IMAGE)
    assert failure is not None and failure.code == "image_pull"
    assert failure.sentence == f"The registry of {IMAGE} does not answer: connection refused"
    assert world.pulls.progress() == {}
    world.pulls.settle(())
    assert world.pulls.failure(IMAGE) is None, "a later job tries afresh"


@pytest.mark.parametrize(
    "cause",
    [PullCause.NOT_FOUND, PullCause.NO_ACCESS, PullCause.DISK_FULL, PullCause.ENGINE_REFUSAL],
)
def test_what_waiting_does_not_mend_fails_at_once(cause):
    world = World()
    world.pulls.begin(IMAGE)
    world.fail(PullFailure(cause, "words of the engine"))
    failure = world.pulls.failure(IMAGE)
    assert failure is not None and IMAGE.name in failure.sentence
    assert failure.sentence.endswith(": words of the engine")


def test_a_pull_without_a_sign_of_life_is_given_up_and_tried_again():
    world = World()
    request, report = world.reporting()
    world.now = STALL_SECONDS - 1
    report(ObservedPull(bytes_done=1))
    world.now = 2 * STALL_SECONDS - 2
    world.pulls.settle({IMAGE})
    assert request.cancelled == 0
    world.now += 2
    world.pulls.settle({IMAGE})
    assert request.cancelled == 1
    assert world.pulls.progress()[IMAGE].cause == "stalled"
    report(ObservedPull(bytes_done=2))
    assert world.pulls.progress()[IMAGE].bytes_done != 2, "an old try reports nothing any more"


def test_a_pull_that_waits_for_others_downloads_has_not_stalled():
    world = World()
    request, report = world.reporting()
    report(ObservedPull(layers_total=1), True)
    world.now = 10 * STALL_SECONDS
    world.pulls.settle({IMAGE})
    assert request.cancelled == 0
    report(ObservedPull(layers_total=1))
    world.now += STALL_SECONDS + 1
    world.pulls.settle({IMAGE})
    assert request.cancelled == 1


def test_progress_wakes_the_loop_at_a_steady_pace_for_all_pulls_together():
    world = World()
    _, first = world.reporting(IMAGE)
    _, second = world.reporting(OTHER)
    for number in range(100):
        world.now = number * REPORT_SECONDS / 50
        first(ObservedPull(bytes_done=number))
        second(ObservedPull(bytes_done=number))
    assert world.news == 2
    shown = world.pulls.progress()
    assert [shown[image].bytes_done for image in (IMAGE, OTHER)] == [51, 50]
    world.now += world.pulls.seconds_until_due(1_000.0)
    world.pulls.settle({IMAGE, OTHER})
    last = world.pulls.progress()
    assert [last[image].bytes_done for image in (IMAGE, OTHER)] == [99, 99], "nothing is left out"
    assert world.pulls.seconds_until_due(1_000.0) == 1_000.0


def test_an_agent_that_ends_gives_all_up_and_begins_nothing_more():
    world = World()
    world.pulls.begin(IMAGE)
    world.pulls.close()
    assert world.engine.requests[0].cancelled == 1
    world.pulls.begin(IMAGE)
    assert len(world.engine.requests) == 1


@pytest.mark.parametrize(
    ("words", "cause"),
    [
        ("manifest for 127.0.0.1:5000/a:1 not found: manifest unknown", PullCause.NOT_FOUND),
        (
            "pull access denied for a/b, repository does not exist or may require 'docker login':"
            " denied: requested access to the resource is denied",
            PullCause.NO_ACCESS,
        ),
        ("unauthorized: authentication required", PullCause.NO_ACCESS),
        (
            'Get "http://127.0.0.1:9/v2/": dial tcp 127.0.0.1:9: connect: connection refused',
            PullCause.REGISTRY_AWAY,
        ),
        (
            'Get "https://reg/v2/": dial tcp: lookup reg: no such host',
            PullCause.REGISTRY_AWAY,
        ),
        ("received unexpected HTTP status: 503 Service Unavailable", PullCause.REGISTRY_AWAY),
        ("toomanyrequests: You have reached your pull rate limit.", PullCause.REGISTRY_BUSY),
        ("write /var/lib/docker/tmp/x: no space left on device", PullCause.DISK_FULL),
        ("no matching manifest for linux/arm64 in the manifest list", PullCause.NOT_FOUND),
        ("unsupported media type", PullCause.ENGINE_REFUSAL),
    ],
)
def test_the_engines_words_give_a_cause(words, cause):
    assert pull_cause(words) is cause


def event(layer, status, current=None, total=None):
    detail = {} if current is None else {"current": current, "total": total}
    return {"id": layer, "status": status, "progressDetail": detail}


def test_the_layers_of_a_pull_are_added_up():
    tally = PullTally()
    tally.add({"status": "Pulling from train", "id": "1"})
    assert tally.progress() == ObservedPull()
    for layer in "abc":
        tally.add(event(layer, "Pulling fs layer"))
    tally.add(event("d", "Already exists"))
    tally.add(event("a", "Downloading", 30, 100))
    assert tally.progress() == ObservedPull(1, 4, 30, None), "b and c have no size yet"
    tally.add(event("b", "Downloading", 10, 50))
    tally.add(event("b", "Download complete"))
    tally.add(event("c", "Download complete"))
    assert tally.progress() == ObservedPull(1, 4, 80, 150)
    tally.add(event("b", "Extracting", 5, 50))
    tally.add(event("b", "Pull complete"))
    tally.add(event("c", "Pull complete"))
    assert tally.progress() == ObservedPull(3, 4, 80, 150)


def test_a_pull_is_queued_while_all_that_is_left_waits_for_other_downloads():
    tally = PullTally()
    assert not tally.is_queued(), "it has listed nothing yet"
    tally.add(event("a", "Already exists"))
    tally.add(event("b", "Waiting"))
    assert tally.is_queued()
    tally.add(event("c", "Pulling fs layer"))
    assert not tally.is_queued()
