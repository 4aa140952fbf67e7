"""What an image sets by itself never reaches devices, the loader or the container toolkit."""

from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from agents.admission.policy import NodePolicy
from agents.contract.documents import Rendezvous
from agents.contract.environment import IMAGE_NAMES, IMAGE_PREFIXES, is_barred_from_images
from agents.contract.image_needs import ImageNeeds
from agents.runtime.base import RuntimeFailure
from agents.runtime.docker_recipe import ContainerRecipe
from agents.runtime.grants import no_grant
from agents.runtime.image import (
    image_env_refusal,
    image_needs,
    image_program,
    require_allowed_env,
)
from agents.runtime.injection import Injection, InjectionPath
from agents.workspace.workspaces import Workspaces
from tests.unit.agents.documents import a_replica

# As CUDA's own base images and NVIDIA's framework images have it.
CUDA_BASE = [
    "PATH=/usr/local/nvidia/bin:/usr/local/cuda/bin:/usr/bin:/bin",
    "NVIDIA_VISIBLE_DEVICES=all",
    "NVIDIA_DRIVER_CAPABILITIES=compute,utility",
    "NVIDIA_REQUIRE_CUDA=cuda>=12.4 brand=tesla,driver>=470",
    "NVIDIA_PRODUCT_NAME=CUDA",
    "NV_CUDA_LIB_VERSION=12.4.1-1",
    "CUDA_VERSION=12.4.1",
    "CUDA_CACHE_DISABLE=1",
    "LD_LIBRARY_PATH=/usr/local/nvidia/lib:/usr/local/nvidia/lib64",
]


def ours(path=InjectionPath.RUNTIME, **fields):
    meeting = Rendezvous("10.0.0.1", 29_500)
    with TemporaryDirectory() as work:
        workspaces = Workspaces(Path(work))
        recipe = ContainerRecipe("n-1", NodePolicy(), Injection(path), no_grant, workspaces)
        return recipe.environment(a_replica(**fields), ("MIG-1",), meeting)


def test_what_an_image_needs_is_read_from_its_description():
    cuda = {"Config": {"Env": CUDA_BASE}, "Architecture": "amd64"}
    requirement = ("cuda>=12.4 driver>=470",)
    assert image_needs(cuda, "amd64") == ImageNeeds(requirement)
    assert image_needs(cuda, "arm64") == ImageNeeds(requirement, "amd64")
    assert not image_needs({"Config": None, "Architecture": "amd64"}, "amd64")


@pytest.mark.parametrize("launcher", ["none", "torchrun"])
def test_the_images_that_everybody_builds_on_are_taken(launcher):
    assert image_env_refusal(CUDA_BASE, ours(launcher=launcher)) == ""


@pytest.mark.parametrize("launcher", ["none", "torchrun"])
@pytest.mark.parametrize(
    ("path", "visible"),
    [
        (InjectionPath.RUNTIME, "MIG-1"),
        (InjectionPath.REQUEST, "MIG-1"),
        (InjectionPath.CDI, "void"),
    ],
)
def test_devices_that_an_image_asks_for_are_always_replaced_by_those_that_were_given(
    launcher, path, visible
):
    env = ours(path, launcher=launcher)
    assert (env["NVIDIA_VISIBLE_DEVICES"], env["TESSERA_DEVICES"]) == (visible, "MIG-1")
    assert {"NVIDIA_VISIBLE_DEVICES", "NVIDIA_DRIVER_CAPABILITIES", "CUDA_DEVICE_ORDER"} <= set(env)


@pytest.mark.parametrize("name", sorted([*IMAGE_NAMES, *(p + "X" for p in IMAGE_PREFIXES)]))
def test_a_barred_name_is_refused_unless_the_agent_writes_its_own_over_it(name):
    assert is_barred_from_images(name)
    assert name in image_env_refusal([*CUDA_BASE, f"{name}=x"], ours()) or name in ours()
    assert name in image_env_refusal([f"{name}=x"], ())
    assert image_env_refusal([f"{name}=x"], {name}) == ""


@pytest.mark.parametrize(
    "env", [[], ["LD_PRELOAD="], ["LD_PRELOAD"], ["MY_LD_PRELOAD=x", "A=LD_PRELOAD=x"]]
)
def test_what_is_empty_or_only_looks_alike_is_taken(env):
    assert image_env_refusal(env, ()) == ""


@pytest.mark.parametrize("attrs", [{}, {"Config": None}, {"Config": {}}, {"Config": {"Env": None}}])
def test_an_image_that_says_nothing_of_its_environment_is_taken(attrs):
    require_allowed_env(attrs, ())


def test_the_engines_word_of_an_image_is_refused_with_a_code_and_what_to_do():
    attrs = {"Config": {"Env": [*CUDA_BASE, "LD_PRELOAD=./proc/self/cwd/evil.so"]}}
    with pytest.raises(RuntimeFailure) as failure:
        require_allowed_env(attrs, ours())
    assert failure.value.code == "image_env"
    assert "sets LD_PRELOAD" in failure.value.sentence
    assert "env LD_PRELOAD=" in failure.value.sentence


def test_an_image_without_a_program_needs_a_command():
    assert image_program({"Config": {"Entrypoint": None}}, ["python", "train.py"]) == [
        "python",
        "train.py",
    ]
    for attrs in ({}, {"Config": {"Entrypoint": None, "Cmd": None}}):
        with pytest.raises(RuntimeFailure) as failure:
            image_program(attrs, [])
        assert failure.value.code == "image_program"
