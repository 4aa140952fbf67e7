"""Chooses the runtime of the nodes: Docker if it accepts simulated devices, otherwise processes.

Talks to the Docker Engine over its socket: the portal itself has no Docker client.
"""

import contextlib
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from portal.demo.processes import ROOT

IMAGE = "tessera-example:latest"
BUILD_IMAGE = ROOT / "docs" / "examples" / "build_image.py"
DEFAULT_ENGINE = "unix:///var/run/docker.sock"
BUILD_SECONDS = 90
PROBE_UUID = "MIG-00000000-0000-0000-0000-000000000000"


@dataclass(frozen=True)
class RuntimeChoice:
    """The value of `python -m agents --runtime`, and why it was chosen."""

    kind: str
    reason: str
    base_url: str = ""


class EngineUnusable(Exception):
    """The Docker Engine cannot be used; the message says why."""


def choose_runtime(environ: Mapping[str, str]) -> RuntimeChoice:
    """Docker, if a trial container with a simulated device starts; otherwise processes."""
    base_url = environ.get("DOCKER_HOST", DEFAULT_ENGINE)
    try:
        with _client(base_url) as client:
            _use_own_api(client)
            _build_image(base_url)
            _require_simulated_devices(client)
    except EngineUnusable as reason:
        return RuntimeChoice("process", str(reason))
    return RuntimeChoice("docker", f"the engine at {base_url} accepts simulated devices", base_url)


def _client(base_url: str) -> httpx.Client:
    scheme, _, place = base_url.partition("://")
    if scheme == "unix":
        if not Path(place).is_socket():
            raise EngineUnusable(f"no Docker Engine listens at {place}")
        transport = httpx.HTTPTransport(uds=place)
        return httpx.Client(transport=transport, base_url="http://docker", timeout=30)
    if scheme == "tcp" and not os.environ.get("DOCKER_TLS_VERIFY"):
        return httpx.Client(base_url=f"http://{place}", timeout=30)
    raise EngineUnusable(f"DOCKER_HOST={base_url} is neither a Unix socket nor plain TCP")


def _use_own_api(client: httpx.Client) -> None:
    """Later calls use the engine's newest API version: the few that are made here are in all."""
    try:
        answer = client.get("/version", timeout=3)
    except httpx.HTTPError as error:
        raise EngineUnusable(f"no Docker Engine answers: {error}") from error
    if not answer.is_success:
        raise EngineUnusable(f"the Docker Engine answers {answer.status_code}")
    client.base_url = client.base_url.join(f"/v{answer.json()['ApiVersion']}")


def _build_image(base_url: str) -> None:
    try:
        done = subprocess.run(  # noqa: S603 - our own program
            [sys.executable, str(BUILD_IMAGE), base_url],
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            capture_output=True,
            text=True,
            timeout=BUILD_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise EngineUnusable(
            f"building the example image took more than {BUILD_SECONDS} s"
        ) from error
    if done.returncode != 0:
        last = (done.stderr.splitlines() or ["no error message"])[-1]
        raise EngineUnusable(f"the example image cannot be built: {last}")


def _require_simulated_devices(client: httpx.Client) -> None:
    """Start a container with a device that only the simulated driver has."""
    body: dict[str, Any] = {
        "Image": IMAGE,
        "Cmd": ["python3", "-c", "0"],
        "HostConfig": {
            "NetworkMode": "none",
            "DeviceRequests": [
                {"Driver": "nvidia", "DeviceIDs": [PROBE_UUID], "Capabilities": [["gpu"]]}
            ],
        },
    }
    try:
        container = _require_success(client.post("/containers/create", json=body))["Id"]
        try:
            _require_success(client.post(f"/containers/{container}/start"))
        finally:
            with contextlib.suppress(httpx.HTTPError):
                client.delete(f"/containers/{container}", params={"force": "true"})
    except httpx.HTTPError as error:
        raise EngineUnusable(f"the Docker Engine stopped answering: {error}") from error


def _require_success(answer: httpx.Response) -> dict[str, Any]:
    body: dict[str, Any] = answer.json() if answer.content else {}
    if not answer.is_success:
        message = str(body.get("message", answer.status_code)).splitlines()[0]
        raise EngineUnusable(f"the Docker Engine does not accept simulated GPUs ({message})")
    return body
