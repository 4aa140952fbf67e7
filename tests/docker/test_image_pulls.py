"""Images that come slowly or not at all, on a real engine: with progress, one pull for each image,
given up at once, and a cause in words."""

from collections.abc import Iterator
from dataclasses import replace

import pytest
from docker.errors import ImageNotFound

from agents.contract.documents import DesiredReplicaState, ReplicaState
from agents.facts.images import WantedImage
from agents.runtime.docker import DockerRuntime
from agents.runtime.image_pull import PullCause, PullFailure
from docs.examples.build_image import IMAGE
from tests.environment.image_registry import LAYER_BYTES, ImageRegistry, running_registry
from tests.support.engine_node import EngineNode, a_replica

pytestmark = pytest.mark.docker


@pytest.fixture(scope="module")
def registry(docker_engine) -> Iterator[ImageRegistry]:
    with running_registry(docker_engine) as running:
        yield running


@pytest.fixture
def node(docker_engine, docker_image, tmp_path, monkeypatch) -> Iterator[EngineNode]:
    monkeypatch.setenv("DOCKER_HOST", docker_engine)
    made = EngineNode(tmp_path)
    made.start()
    yield made
    made.end()


def repository(image: str) -> str:
    return image.partition("/")[2].rpartition(":")[0]


def test_a_slow_image_comes_with_progress_and_its_replica_is_prepared(node, registry):
    image = registry.image("seconds-6", "slow")
    wish = DesiredReplicaState.PREPARE
    twins = [replace(a_replica(name, image), wish=wish) for name in ("one", "two")]
    node.want(*twins)
    reports = []

    def has_progress() -> bool:
        replica = node.reported(twins[1])
        if replica and replica.pull:
            reports.append(replica.pull)
        return any(0 < pull.bytes_done < LAYER_BYTES for pull in reports)

    node.until(has_progress, "progress")
    assert reports[-1].layers_total == 1 and reports[-1].bytes_total > LAYER_BYTES
    for replica in twins:
        assert node.until_state(replica, ReplicaState.READY).pull is None
    assert list(registry.events("begin")).count(repository(image)) == 1
    assert node.runtime.client.images.get(image)


def test_a_cancelled_pull_is_broken_off_at_the_registry_and_others_go_on(node, registry):
    doomed = a_replica("doomed", registry.image("seconds-120", "doomed"))
    twin = a_replica("twin", doomed.image)
    kept = a_replica("kept", registry.image("seconds-120", "kept"))
    node.want(doomed, twin, kept)
    for replica in (doomed, kept):
        node.until(lambda r=replica: repository(r.image) in registry.events("begin"), "a layer")
    node.cancel(doomed)
    node.until_state(doomed, ReplicaState.FAILED)
    assert repository(doomed.image) not in registry.events("broken"), "its twin waits for it"
    node.cancel(twin)
    assert node.until_state(twin, ReplicaState.FAILED).code == "never_started"
    node.until(lambda: repository(doomed.image) in registry.events("broken"), "the broken pull")
    assert repository(kept.image) not in registry.events("broken")
    with pytest.raises(ImageNotFound):
        node.runtime.client.images.get(doomed.image)


def test_a_container_is_stopped_while_images_are_pulled(node, registry):
    running = a_replica("running", IMAGE, ("sh", "-c", "trap 'exit 0' TERM; sleep 1000 & wait"))
    node.want(running)
    node.until_state(running, ReplicaState.RUNNING)
    pulling = [a_replica(f"p{n}", registry.image("silent", f"p{n}")) for n in range(8)]
    node.want(*pulling)
    for replica in pulling:
        node.until(lambda r=replica: node.reported(r) and node.reported(r).pull, "a pull")
    node.cancel(running)
    assert node.until_state(running, ReplicaState.EXITED).exit_code == 0
    assert all(node.reported(replica).pull for replica in pulling)


@pytest.mark.parametrize(
    ("kind", "cause"),
    [
        ("absent", PullCause.NOT_FOUND),
        ("private", PullCause.NO_ACCESS),
        ("broken", PullCause.REGISTRY_AWAY),
    ],
)
def test_what_a_registry_refuses_has_its_cause(docker_node, registry, kind, cause):
    assert failure_of(docker_node.runtime(), registry.image(kind, "train")).cause is cause


def test_a_registry_that_is_away_has_its_cause(docker_node):
    failure = failure_of(docker_node.runtime(), "127.0.0.1:9/nobody/nothing:1")
    assert failure.cause is PullCause.REGISTRY_AWAY
    assert "connection refused" in failure.words


def test_a_job_whose_image_does_not_exist_fails_with_a_sentence(node, registry):
    absent = a_replica("absent", registry.image("absent", "train"))
    node.want(absent)
    failed = node.until_state(absent, ReplicaState.FAILED)
    assert failed.code == "image_pull"
    assert failed.sentence.startswith(f"The registry has no image {absent.image}")


def failure_of(runtime: DockerRuntime, image: str) -> PullFailure:
    with pytest.raises(PullFailure) as failure:
        runtime.new_pull(WantedImage(image)).run(lambda *_: None)
    return failure.value


def test_an_image_that_is_there_is_pulled_again_without_a_layer(docker_node, registry):
    """As after a pull that was complete when its agent was killed."""
    runtime, image = docker_node.runtime(), registry.image("seconds-0", "twice")
    for _ in range(2):
        runtime.new_pull(WantedImage(image)).run(lambda *_: None)
    assert runtime.client.images.get(image).tags
