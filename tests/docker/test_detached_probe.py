"""The probe for a GPU that was cut off, in real containers: a device of this machine stands in for
the GPU's control file, with and without the control group's leave to open it."""

import os
from pathlib import Path
from types import SimpleNamespace
from uuid import uuid4

import docker
import pytest

from agents.health.lost_devices import DetachedProbe

pytestmark = pytest.mark.docker

PLACES = ("/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/nvidia-caps/nvidia-cap12")
# Devices that the engine does not let every container open by itself.
STAND_INS = ("/dev/fuse", "/dev/loop-control", "/dev/kmsg", "/dev/net/tun")


@pytest.fixture
def stand_in() -> str:
    for device in STAND_INS:
        if Path(device).exists() and os.access(device, os.R_OK):
            return device
    pytest.skip(f"none of {STAND_INS} is here")


@pytest.fixture
def start(docker_engine: str, docker_image: str):
    client = docker.DockerClient(base_url=docker_engine, timeout=60)
    started = []

    def run(device: str, may: str, place: str):
        name = f"tessera-test-{uuid4().hex[:8]}"
        mapped = [f"{device}:{place}:{may}"]
        command = ["sleep", "600"]
        box = client.containers.run(docker_image, command, name=name, devices=mapped, detach=True)
        started.append(box)
        # As one with GPUs: the engine of a test has no driver to ask for them.
        attrs = {"HostConfig": {"Runtime": "nvidia"}}
        return SimpleNamespace(name=name, attrs=attrs, exec_run=box.exec_run)

    yield run
    for box in started:
        box.remove(force=True)
    client.close()


@pytest.mark.parametrize("place", PLACES)
def test_a_container_whose_control_group_took_the_device_away_is_noticed(start, stand_in, place):
    cut_off, well = start(stand_in, "m", place), start(stand_in, "rwm", place)
    probe = DetachedProbe(lambda: [cut_off, well])
    probe.run()
    assert [said.split()[0] for said in probe.sentences] == [cut_off.name]
