"""The demonstration with a real engine: the same job, in containers, and nothing left of it."""

import json
import subprocess
import sys

import docker
import pytest

from tests.services.stack import ROOT, environ

pytestmark = [pytest.mark.docker, pytest.mark.slow]


def test_two_containers_on_two_slices_make_one_job(tmp_path, docker_engine):
    client = docker.DockerClient(base_url=docker_engine, version="1.41")
    before = {network.id for network in client.networks.list()}
    done = subprocess.run(
        [sys.executable, "manage.py", "demo"],
        cwd=ROOT,
        env=environ(tmp_path / "var", DEMO_EXIT="1", DOCKER_HOST=docker_engine),
        capture_output=True,
        text=True,
        timeout=150,
        check=False,
    )
    try:
        assert done.returncode == 0, done.stdout + done.stderr
        assert "runtime    docker: " in done.stdout
        result = json.loads(done.stdout.splitlines()[-1])
        assert (result["state"], result["allreduce_ok"], result["replicas"]) == (
            "succeeded",
            True,
            2,
        )
        left = client.containers.list(all=True, filters={"label": "tessera.node"})
        assert left == []
        assert {network.id for network in client.networks.list()} <= before
    finally:
        client.close()
