"""An image on a real engine that brings an environment is refused, or what it asks is replaced."""

from uuid import uuid4

import pytest

from agents.contract.image_needs import ImageNeeds
from agents.facts.images import WantedImage
from agents.runtime.base import RuntimeFailure
from tests.contract.replicas import DEVICE, Watch, a_replica, go

pytestmark = pytest.mark.docker
SHOW = "import os; print(os.environ['NVIDIA_VISIBLE_DEVICES'], os.environ['NVIDIA_REQUIRE_CUDA'])"


@pytest.fixture
def an_image(docker_node, docker_image):
    """Make the example's image anew with variables of its own; gone after the test."""
    made = []

    def make(**env):
        name = f"tessera-test-{uuid4().hex[:12]}"
        container = docker_node.client.containers.create(docker_image, ["true"])
        changes = [f"ENV {key}={value}" for key, value in env.items()]
        container.commit(repository=name, tag="1", changes=changes)
        container.remove()
        made.append(f"{name}:1")
        return made[-1]

    yield make
    for name in made:
        docker_node.client.images.remove(name, force=True)


@pytest.mark.parametrize(
    "name", ["LD_PRELOAD", "NVIDIA_MIG_CONFIG_DEVICES", "CUDA_VISIBLE_DEVICES"]
)
def test_an_image_that_steers_is_refused_and_no_container_is_made(docker_node, an_image, name):
    replica = a_replica(image=an_image(**{name: "all"}))
    with pytest.raises(RuntimeFailure) as failure:
        docker_node.runtime().prepare(replica, (DEVICE,))
    assert failure.value.code == "image_env"
    assert f"the image sets {name}" in failure.value.sentence
    assert docker_node.containers() == []


def test_an_image_that_asks_for_every_gpu_sees_the_one_that_was_given(docker_node, an_image):
    image = an_image(NVIDIA_VISIBLE_DEVICES="all", NVIDIA_REQUIRE_CUDA="cuda>=12.4")
    replica = a_replica(SHOW, image=image)
    runtime = docker_node.runtime()
    assert runtime.image_needs(WantedImage(image)) == ImageNeeds(("cuda>=12.4",))
    watch = Watch(runtime)
    go(runtime, replica, devices=(DEVICE,))
    assert watch.ended(replica).exit_code == 0
    assert runtime.log(replica.id, 0, 4_096).decode().split() == [DEVICE, "cuda>=12.4"]
