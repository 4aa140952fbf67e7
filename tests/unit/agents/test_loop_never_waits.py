"""Nothing that takes long keeps a node from what must happen now: eight pulls in progress, or stops
in their grace period, while another replica is to be stopped, prepared, or a slice carved."""

import threading
from collections import Counter

import pytest

from agents.contract.documents import DesiredReplicaState, ReplicaState
from agents.contract.pulls import ObservedPull
from agents.loop.workers import Workers
from agents.runtime.image_pull import ImageAbsent
from tests.support.memory_runtime import MemoryRuntime
from tests.unit.agents.nodes import a_document, on_it
from tests.unit.mps.stage import until

STOP = DesiredReplicaState.STOP
# More than the threads for short work.
MANY = 12
SECONDS = 300  # a bound for what never comes; nothing waits so long


class Pull:
    """Ends when its image has come, or when it is given up."""

    def __init__(self, runtime, image):
        self.runtime, self.image = runtime, image
        self.over = threading.Event()
        self.cancelled = False

    def run(self, report):
        report(ObservedPull(layers_total=2, bytes_done=10), False)
        self.runtime.pulling.release()
        self.over.wait()
        if not self.cancelled:
            self.runtime.absent.discard(self.image)

    def cancel(self):
        self.cancelled = True
        self.over.set()


class SlowRuntime(MemoryRuntime):
    """Images that take for ever to come, and containers that take their whole grace period."""

    def __init__(self, slices):
        super().__init__(slices)
        self.absent, self.pulls = set(), {}
        self.pulling, self.stopping = threading.Semaphore(0), threading.Semaphore(0)
        self.grace_is_over, self.grace = threading.Event(), set()

    def require_image(self, image):
        if image.name in self.absent:
            raise ImageAbsent(image)

    def new_pull(self, image, credential=None):
        self.pulls[image.name] = Pull(self, image.name)
        return self.pulls[image.name]

    def stop(self, replica_id, grace_seconds):
        self.stopping.release()
        if replica_id in self.grace:
            self.grace_is_over.wait()
        super().stop(replica_id, grace_seconds)


@pytest.fixture
def node(machine):
    machine.runtime = SlowRuntime(machine.slices)
    agent = machine.agent(workers=Workers)
    agent.renew_lease(float("inf"))
    looping = threading.Thread(target=agent.run)
    looping.start()
    yield agent
    machine.runtime.grace_is_over.set()
    agent.stop()
    looping.join()


def reported(machine):
    return {r.id: r for r in machine.reported[-1].replicas} if machine.reported else {}


def is_reported(machine, replica, state):
    found = reported(machine).get(replica)
    return found is not None and found.state is state


def layers(machine, replica):
    """How many layers its pull has, as far as that is reported."""
    found = reported(machine).get(replica)
    return found.pull.layers_total if found and found.pull else None


def crowd(machine, count=MANY, **fields):
    return [
        on_it(machine, id=f"p-{n}", job=f"j-{n}", devices=(), image=f"r.example/{n}:1", **fields)
        for n in range(count)
    ]


def test_a_stop_does_not_queue_behind_pulls_nor_does_a_carving(machine, node):
    alone = on_it(machine, id="alone", devices=())
    node.accept(a_document(machine, alone, profile=""))
    until(lambda: is_reported(machine, "alone", ReplicaState.RUNNING), "the running replica")
    pulling = crowd(machine)
    machine.runtime.absent = {replica.image for replica in pulling}
    node.accept(a_document(machine, alone, *pulling, profile="", revision=2))
    for _ in pulling:
        assert machine.runtime.pulling.acquire(timeout=SECONDS)
    stopped = on_it(machine, STOP, id="alone", devices=())
    node.accept(a_document(machine, stopped, *pulling, revision=3))
    assert machine.runtime.stopping.acquire(timeout=SECONDS)
    until(machine.slices, "the slice")
    assert not any(pull.over.is_set() for pull in machine.runtime.pulls.values())


def test_a_pulling_replica_is_cancelled_at_once_and_its_pull_with_the_last_that_waits(
    machine, node
):
    pulling = crowd(machine)
    twin = on_it(machine, id="twin", job="j-twin", devices=(), image=pulling[0].image)
    machine.runtime.absent = {replica.image for replica in pulling}
    node.accept(a_document(machine, twin, *pulling, profile=""))
    for _ in pulling:
        assert machine.runtime.pulling.acquire(timeout=SECONDS)
    assert len(machine.runtime.pulls) == len(pulling), "the twin waits for the same pull"
    until(lambda: layers(machine, "twin") == 2, "progress")
    node.accept(a_document(machine, twin, *pulling[1:], profile="", revision=2))
    until(lambda: "p-0" not in reported(machine), "the end of the first")
    pulls = machine.runtime.pulls
    assert not pulls[twin.image].cancelled, "the twin still waits"
    stopped = on_it(machine, STOP, id="twin", job="j-twin", devices=(), image=twin.image)
    node.accept(a_document(machine, stopped, *pulling[1:], profile="", revision=3))
    until(lambda: is_reported(machine, "twin", ReplicaState.FAILED), "the end of the twin")
    assert reported(machine)["twin"].code == "never_started"
    until(lambda: pulls[twin.image].cancelled, "the end of the pull")
    assert Counter(pull.cancelled for pull in pulls.values()) == {True: 1, False: MANY - 1}
    for pull in pulls.values():
        pull.over.set()
    rest = [replica.id for replica in pulling[1:]]
    for replica in rest:
        until(lambda r=replica: is_reported(machine, r, ReplicaState.RUNNING), replica)
    assert all(reported(machine)[replica].pull is None for replica in rest)


def test_stops_in_their_grace_period_keep_nothing_else_waiting(machine, node):
    stubborn = crowd(machine)
    node.accept(a_document(machine, *stubborn, profile=""))
    for replica in stubborn:
        until(lambda r=replica: is_reported(machine, r.id, ReplicaState.RUNNING), replica.id)
    machine.runtime.grace = {replica.id for replica in stubborn}
    stopping = crowd(machine, wish=STOP)
    node.accept(a_document(machine, *stopping, profile="", revision=2))
    for _ in stopping:
        assert machine.runtime.stopping.acquire(timeout=SECONDS), "each stop begins at once"
    fresh = on_it(machine, id="fresh", devices=())
    node.accept(a_document(machine, fresh, *stopping, revision=3))
    until(lambda: is_reported(machine, "fresh", ReplicaState.RUNNING), "another replica")
    until(machine.slices, "the slice")
    assert all(is_reported(machine, r.id, ReplicaState.RUNNING) for r in stubborn)
