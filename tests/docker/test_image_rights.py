"""Which bytes run, and who may run them, on a real engine and registries of two kinds."""

import time
from collections.abc import Iterator
from dataclasses import replace

import pytest

from agents.admission.policy import NodePolicy
from agents.contract.documents import DesiredReplicaState, ReplicaState
from agents.contract.pulls import PullCause
from agents.contract.registries import RegistryCredential
from agents.facts.images import WantedImage
from agents.images.pruning import FRESH_SECONDS
from agents.images.records import ImageRecords
from agents.runtime.docker import DockerRuntime
from agents.runtime.image_pull import ImageAbsent, PullFailure
from docs.examples.build_image import IMAGE
from tests.environment.image_registry import ImageRegistry, running_registry
from tests.support.engine_node import EngineNode, a_replica

pytestmark = pytest.mark.docker

PASSWORDS = {"vision": "vision-password-1", "speech": "speech-password-2"}
PREPARE = DesiredReplicaState.PREPARE
NAMES = ("owners", "used", "kept", "oldest", "newest")


@pytest.fixture(scope="module")
def registry(docker_engine) -> Iterator[ImageRegistry]:
    with running_registry(docker_engine) as running:
        yield running


@pytest.fixture(scope="module")
def locked(docker_engine) -> Iterator[ImageRegistry]:
    with running_registry(docker_engine, PASSWORDS) as running:
        yield running


@pytest.fixture
def node(docker_engine, docker_image, tmp_path, monkeypatch) -> Iterator[EngineNode]:
    monkeypatch.setenv("DOCKER_HOST", docker_engine)
    made = EngineNode(tmp_path)
    made.start()
    yield made
    made.end()


def test_a_rank_whose_tag_had_moved_gets_the_bytes_of_rank_0(node, registry):
    """As on two nodes, of which the second pulls after the tag was moved. Both are on one engine
    here, which forgets the name in between."""
    image = registry.image("shell", "gang")
    ranks = [
        replace(a_replica(f"rank-{n}", image, ("cat", "/version")), wish=PREPARE, rank=n, world=2)
        for n in range(2)
    ]
    node.want(ranks[0])
    first = node.until_state(ranks[0], ReplicaState.READY).image_digest
    registry.move_tag(image)
    node.runtime.client.images.remove(image, force=True)
    node.want(ranks[1])
    moved = node.until_state(ranks[1], ReplicaState.READY).image_digest
    assert first.startswith("sha256:") and moved.startswith("sha256:") and first != moved
    node.want(replace(ranks[1], image_digest=first))
    node.until(lambda: node.reported(ranks[1]).image_digest == first, "the bytes of rank 0")
    images = {c.image.id for c in node.containers()}
    assert len(images) == 1


def test_an_attempt_runs_the_bytes_of_the_one_before(node, registry):
    image = registry.image("shell", "again")
    one = a_replica("one", image, ("cat", "/version"))
    node.want(one)
    digest = node.until_state(one, ReplicaState.EXITED).image_digest
    registry.move_tag(image)
    node.runtime.client.images.remove(image, force=True)
    two = replace(one, id="two", attempt=2, fence=2, image_digest=digest)
    fresh = replace(one, id="fresh", job="job-fresh")
    node.want(two, fresh)
    for replica, said in ((two, b"version 0"), (fresh, b"version 1")):
        node.until_state(replica, ReplicaState.EXITED)
        assert said in node.runtime.log(replica.id, 0, 100)


def test_an_image_of_no_registry_is_reported_by_its_id_and_compared(node):
    one = a_replica("one", IMAGE)
    node.want(one)
    digest = node.until_state(one, ReplicaState.EXITED).image_digest
    assert digest == f"id:{node.runtime.client.images.get(IMAGE).id}"
    same = replace(a_replica("same", IMAGE), image_digest=digest)
    other = replace(a_replica("other", IMAGE), image_digest="id:sha256:" + "0" * 64)
    node.want(same, other)
    node.until_state(same, ReplicaState.EXITED)
    failed = node.until_state(other, ReplicaState.FAILED)
    assert failed.code == "image_differs" and failed.sentence.startswith(f"{IMAGE} is another")


class Cache:
    """An engine's images, as the agent lets projects use them."""

    def __init__(self, docker_node, file):
        self.file = file
        self.policy = NodePolicy()
        self.docker_node = docker_node
        self.start()

    def start(self, clock=time.time):
        """A new agent on the same folder."""
        node = self.docker_node
        records = ImageRecords(self.file, clock)
        self.runtime = DockerRuntime(node.home, node.name, self.policy, records=records)
        node.running.append(self.runtime)

    def pull(self, image, project, password=None):
        secret = password or PASSWORDS[project]
        login = RegistryCredential(image.partition("/")[0], project, secret)
        self.runtime.new_pull(WantedImage(image, project), login).run(lambda *_: None)

    def may_run(self, image, project):
        try:
            self.runtime.require_image(WantedImage(image, project))
        except ImageAbsent:
            return False
        return True

    def refusal(self, image, project, login=True):
        with pytest.raises(PullFailure) as failure:
            if login:
                self.pull(image, project)
            else:
                self.runtime.new_pull(WantedImage(image, project)).run(lambda *_: None)
        return failure.value.cause


@pytest.fixture
def cache(docker_node, tmp_path) -> Cache:
    return Cache(docker_node, tmp_path / "images.json")


def test_an_image_in_the_cache_is_for_the_projects_that_the_registry_granted_it(cache, locked):
    image = locked.image("seconds-0/vision", "private")
    assert cache.refusal(image, "speech") is PullCause.NO_ACCESS
    cache.pull(image, "vision")
    name, digest = cache.runtime.client.images.get(image).attrs["RepoDigests"][0].split("@")
    for _ in range(2):
        assert cache.may_run(image, "vision")
        for spelling in (image, f"{name}@{digest}"):
            assert not cache.may_run(spelling, "speech")
            assert cache.refusal(spelling, "speech") is PullCause.NO_ACCESS
            assert cache.refusal(spelling, "speech", login=False) is PullCause.NO_ACCESS
        cache.start()
    assert "vision-password" not in cache.file.read_text()
    with pytest.raises(PullFailure):
        cache.pull(image, "vision", password="wrong-password")


def test_a_manifest_that_the_engine_still_has_is_no_way_in(cache, locked):
    image = locked.image("seconds-0/vision", "gone")
    cache.pull(image, "vision")
    name, digest = cache.runtime.client.images.get(image).attrs["RepoDigests"][0].split("@")
    cache.runtime.client.images.remove(image)
    assert cache.refusal(f"{name}@{digest}", "speech") is PullCause.NO_ACCESS


def test_a_project_that_the_registry_grants_it_too_pulls_no_layer_again(cache, locked):
    image = locked.image("seconds-0/vision/speech", "shared")
    cache.pull(image, "vision")
    assert not cache.may_run(image, "speech")
    begun = locked.events("begin")
    cache.pull(image, "speech")
    assert cache.may_run(image, "speech") and locked.events("begin") == begun


def test_what_was_pulled_without_a_projects_credentials_is_for_everyone(cache, registry):
    image = registry.image("seconds-0", "public")
    cache.runtime.new_pull(WantedImage(image, "vision")).run(lambda *_: None)
    assert cache.may_run(image, "speech")


def test_an_agent_that_is_killed_at_the_end_of_a_pull_leaves_no_open_door(cache, locked):
    image = locked.image("seconds-0/vision", "killed")
    cache.runtime._images._records.add_pull = lambda *_, **__: None
    cache.pull(image, "vision")
    cache.start()
    assert not cache.may_run(image, "speech") and not cache.may_run(image, "vision")
    cache.pull(image, "vision")
    assert cache.may_run(image, "vision")


def test_images_beyond_the_limit_are_removed_the_least_recently_used_first(cache, registry):
    """Each has 2 MiB of its own. One is in a container, one is to be kept, one is the owner's."""
    now = [1_000_000.0]
    client = cache.docker_node.client
    names = [registry.image("shell" if n == "used" else "seconds-0", f"cache-{n}") for n in NAMES]
    owners, used, kept, oldest, newest = names
    client.images.pull(owners)
    layers = client.df()["LayersSize"] >> 20
    cache.policy = NodePolicy(image_cache=f"{layers + 8}MiB", keep_images=(kept,))
    cache.start(lambda: now[0])
    for name in (used, kept, oldest, newest):
        now[0] += 1
        cache.runtime.new_pull(WantedImage(name)).run(lambda *_: None)
    replica = a_replica("used", used, ("cat", "/version"))
    cache.runtime.prepare(replica, ())
    now[0] += FRESH_SECONDS + 10
    assert cache.runtime.image_cache.prune() == []
    cache.policy = replace(cache.policy, image_cache=f"{layers + 6}MiB")
    cache.start(lambda: now[0])
    removed = cache.runtime.image_cache.prune()
    assert removed[0] == oldest and newest not in removed
    cache.policy = replace(cache.policy, image_cache="1MiB")
    cache.start(lambda: now[0])
    assert cache.runtime.image_cache.prune()[0] == newest
    for name in (owners, used, kept):
        assert client.images.get(name)
    cache.runtime.remove(replica.id)
