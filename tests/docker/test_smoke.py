"""`agents doctor --smoke` on a real engine with a simulated driver.

The engine's runtime "nvidia" is a stand-in: runc, and before it starts a container a program named
nvidia-smi that lists the devices of NVIDIA_VISIBLE_DEVICES. Whether a driver's files reach a
container is left to hardware.
"""

import os
import shutil
import subprocess
import sys
from json import loads
from pathlib import Path

import pytest

from agents.nvml.session import Nvml
from agents.simdriver.install import install, uninstall
from agents.simdriver.state import new_node
from agents.simdriver.store import Store
from docs.examples.build_image import IMAGE
from tests.docker.own_engine import OwnEngine, own_engine
from tests.environment.docker_engine import engine_client

pytestmark = pytest.mark.docker
RUNTIME = """#!{python} -I
import json, os, pathlib, sys
words = sys.argv[1:]
if "create" in words:
    config = pathlib.Path(words[words.index("--bundle") + 1], "config.json")
    spec = json.loads(config.read_text())
    env = dict(entry.split("=", 1) for entry in spec["process"]["env"])
    if env.get("NVIDIA_VISIBLE_DEVICES", "void") != "void":
        mount = {{"type": "bind", "source": {smi!r}, "options": ["bind", "ro"]}}
        spec["mounts"].append(mount | {{"destination": "/bin/nvidia-smi"}})
        config.write_text(json.dumps(spec))
os.execv({runc!r}, ["runc", *words])
"""
SMI = """#!/bin/sh
for uuid in $(echo "$NVIDIA_VISIBLE_DEVICES" | tr , " "); do
  case $uuid in
    GPU-*) echo "GPU 0: NVIDIA H200 (UUID: $uuid)" ;;
    MIG-*) echo "  MIG 1g.18gb     Device  0: (UUID: $uuid)" ;;
  esac
done
"""
# A toolkit that gives every container the same device, whatever was requested.
WRONG_SMI = """#!/bin/sh
echo "GPU 0: NVIDIA H200 (UUID: GPU-00000000-0000-0000-0000-000000000000)"
"""


class EngineWithRuntime(OwnEngine):
    def write_program(self, name: str, text: str) -> str:
        path = self.home / name
        path.write_text(text, "utf-8")
        path.chmod(0o755)
        return str(path)

    def _command(self) -> list[str]:
        smi = self.write_program("nvidia-smi", SMI)
        runc = shutil.which("runc", path=self._environ()["PATH"])
        text = RUNTIME.format(python=sys.executable, smi=smi, runc=runc)
        runtime = self.write_program("nvidia-container-runtime", text)
        return [*super()._command(), "--add-runtime", f"nvidia={runtime}"]


@pytest.fixture(scope="module")
def engine():
    with own_engine(EngineWithRuntime) as engine:
        yield engine


@pytest.fixture
def examine(engine, tmp_path):
    """Runs the command as an operator does. Returns what the containers showed, or the text."""
    store = Store(tmp_path / "driver.json")
    store.create(new_node(board="H200-141GB", gpus=2, seed=7, latency=False))

    def run(policy="", *, image=IMAGE, json=True):
        path = tmp_path / "policy.toml"
        path.write_text(policy, "utf-8")
        environ = os.environ | {
            "DOCKER_HOST": engine.base_url,
            "TESSERA_SIMULATED_DRIVER": str(store.path),
        }
        options = ["--smoke", "--smoke-image", image, "--policy", str(path), "--var", str(tmp_path)]
        done = subprocess.run(
            [sys.executable, "-m", "agents", "doctor", *options, *(["--json"] if json else [])],
            env=environ,
            cwd=Path(__file__).parents[2],
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )
        assert not done.stderr, done.stderr
        return loads(done.stdout)["smoke"] if json else done.stdout

    run.store = store
    return run


def carve(store):
    """One slice on the second GPU."""
    install(store.path)
    nvml = Nvml()
    gpu = nvml.devices()[1].uuid
    nvml.set_mig_mode(gpu, on=True)
    nvml.create_instance(gpu, 19, 0, 1)
    (instance,) = nvml.instances(gpu)
    nvml.close()
    uninstall()
    return instance.uuid


@pytest.fixture(scope="module")
def plain_image(engine):
    """The example image without its Python, as most base images are."""
    command = ["sh", "-c", "rm $(command -v python3)"]
    with engine_client(engine.base_url) as client:
        container = client.containers.run(IMAGE, command, detach=True, network_mode="none")
        assert container.wait()["StatusCode"] == 0, container.logs().decode()
        container.commit(repository="tessera-test-plain", tag="1")
        container.remove()
    return "tessera-test-plain:1"


def by_way(results):
    return {(r["path"], r["device"]): r for r in results}


def test_the_runtime_is_tried_as_a_job_on_a_gpu_and_on_a_slice(examine, plain_image):
    uuid = carve(examine.store)
    found = by_way(examine(image=plain_image))
    bare, whole, sliced = (
        found[way] for way in (("", "no device"), ("runtime", "whole GPU"), ("runtime", "slice"))
    )
    verdicts = [result["verdict"] for result in (bare, whole, sliced)]
    assert verdicts == ["ok", "ok", "ok"], (bare, whole, sliced)
    assert whole["is_chosen"] and sliced["is_chosen"]
    assert "smi=absent" in bare["saw"]
    assert {"uid=65534", f"devices={uuid}"} <= {*sliced["saw"]}
    assert f"  MIG 1g.18gb     Device  0: (UUID: {uuid})" in sliced["saw"]
    assert sliced["why"] == (
        f"it saw {uuid} alone; CUDA was not tried, since the image has no python3"
    )


@pytest.mark.slow
def test_the_ways_that_this_engine_lacks_are_not_tried(examine, plain_image):
    found = by_way(examine(image=plain_image))
    assert found["runtime", "slice"]["why"] == "no slice is carved"
    assert {found["cdi", d]["why"] for d in ("whole GPU", "slice")} == {
        "the engine reads no CDI files"
    }
    assert found["nvidia", "slice"]["verdict"] == "untried"


@pytest.mark.slow
def test_an_image_with_python_calls_cuda_which_only_hardware_has(examine):
    whole = by_way(examine())["runtime", "whole GPU"]
    assert whole["verdict"] == "failed"
    assert whole["why"] == "it has no libcuda.so.1, so the driver's libraries were not added"


def test_a_container_on_another_device_fails(examine, engine, plain_image):
    engine.write_program("nvidia-smi", WRONG_SMI)
    try:
        whole = by_way(examine(image=plain_image))["runtime", "whole GPU"]
    finally:
        engine.write_program("nvidia-smi", SMI)
    assert whole["verdict"] == "failed"
    assert whole["why"].startswith(
        "it sees GPU-00000000-0000-0000-0000-000000000000, and was given"
    )


@pytest.mark.slow
def test_the_policys_user_and_way_count(examine, plain_image):
    found = by_way(examine('user = 1000\ndevice_injection = "nvidia"\n', image=plain_image))
    assert found["", "no device"]["verdict"] == "ok"
    assert "uid=1000" in found["", "no device"]["saw"]
    assert found["nvidia", "slice"]["is_chosen"]


def test_an_image_that_is_not_there_is_not_pulled(examine):
    bare = by_way(examine(image="tessera-test-none:1"))["", "no device"]
    assert bare["verdict"] == "untried"
    assert (
        bare["why"]
        == "the engine has no image tessera-test-none:1: docker pull tessera-test-none:1"
    )


def test_nothing_of_it_is_left_on_the_engine(examine, engine, plain_image):
    examine(image=plain_image)
    with engine_client(engine.base_url) as client:
        assert client.containers.list(all=True) == []
        assert {network.name for network in client.networks.list()} == {"bridge", "host", "none"}


@pytest.mark.slow
def test_people_read_what_it_saw_and_what_a_simulation_cannot_show(examine, plain_image):
    text = examine(image=plain_image, json=False)
    assert "containers, run like those of jobs:" in text
    assert "(used for jobs)" in text
    assert "The driver is simulated: nothing here shows that a GPU reaches a container." in text
