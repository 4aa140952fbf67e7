"""A private image with the portal's credentials, on a real engine: it runs for the project that has
them, with its digest on the job, and not for another project from the node's cache."""

import secrets
from pathlib import Path

import pytest

from tests.environment.image_registry import running_registry
from tests.services.stack import Stack

pytestmark = [pytest.mark.docker, pytest.mark.slow]
CANARY = "canary-" + secrets.token_hex(16)


def test_a_private_image_runs_for_its_project_and_for_no_other(tmp_path: Path, docker_engine):
    with (
        running_registry(docker_engine, {"vision": CANARY}) as registry,
        Stack(var=tmp_path, docker_url=docker_engine, nodes=("node-a",), gpus=1) as stack,
    ):
        program, other = "tests.services.set_registry", "speech"
        stack.manage_program(program, "vision", registry.address, "vision", CANARY)
        stack.manage_program(program, other)
        image = registry.image("shell/vision", "private")

        def ended(project: str) -> dict:
            fields = {"image": image, "project": project, "device": {"gpus": 1}}
            job = stack.submit(["cat", "/version"], **fields)
            return stack.until_status(job, "succeeded", "failed")

        first = ended("vision")
        assert first["status"] == "succeeded", first["attempts"]
        assert first["attempts"][0]["image_digest"].startswith("sha256:")
        refused = ended(other)
        (replica,) = refused["attempts"][0]["replicas"]
        assert (refused["status"], replica["code"]) == ("failed", "image_pull")
        assert replica["sentence"].startswith("The registry gives no access to")
        begun = registry.events("begin")
        again = ended("vision")
        assert again["status"] == "succeeded" and registry.events("begin") == begun
        for name in list(stack.running):
            stack.stop(name)
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert [path for path in files if CANARY.encode() in path.read_bytes()] == []
    assert any(path.name == "images.json" for path in files)
