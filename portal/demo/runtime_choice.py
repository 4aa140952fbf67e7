"""Which runtime the nodes use: Docker where it takes simulated devices, else processes.

Speaks to the engine over its socket: the portal itself has no Docker client.
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
API = "/v1.41"
BUILD_SECONDS = 90
PROBE_UUID = "MIG-00000000-0000-0000-0000-000000000000"


@dataclass(frozen=True)
class Choice:
    """`kind` as `python -m agents --runtime` takes it, and why it was chosen."""

    kind: str
    why: str
    base_url: str = ""


class NotUsable(Exception):
    """Why the engine is not used."""


def choose(environ: Mapping[str, str]) -> Choice:
    """Docker if a container with a simulated device starts there; told by trying it."""
    base_url = environ.get("DOCKER_HOST", DEFAULT_ENGINE)
    try:
        with _client(base_url) as client:
            _require_answer(client)
            _build_image(base_url)
            _require_simulated_devices(client)
    except NotUsable as reason:
        return Choice("process", str(reason))
    return Choice("docker", f"the engine at {base_url} takes simulated devices", base_url)


def _client(base_url: str) -> httpx.Client:
    scheme, _, place = base_url.partition("://")
    if scheme == "unix":
        if not Path(place).is_socket():
            raise NotUsable(f"no Docker Engine listens at {place}")
        transport = httpx.HTTPTransport(uds=place)
        return httpx.Client(transport=transport, base_url=f"http://docker{API}", timeout=30)
    if scheme == "tcp" and not os.environ.get("DOCKER_TLS_VERIFY"):
        return httpx.Client(base_url=f"http://{place}{API}", timeout=30)
    raise NotUsable(f"DOCKER_HOST={base_url} is neither a Unix socket nor plain TCP")


def _require_answer(client: httpx.Client) -> None:
    try:
        answer = client.get("/_ping", timeout=3)
    except httpx.HTTPError as error:
        raise NotUsable(f"no Docker Engine answers: {error}") from error
    if not answer.is_success:
        raise NotUsable(f"the Docker Engine answers {answer.status_code}")


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
    except subprocess.TimeoutExpired as late:
        raise NotUsable(f"the example image took more than {BUILD_SECONDS} s to make") from late
    if done.returncode != 0:
        last = (done.stderr.splitlines() or ["no reason given"])[-1]
        raise NotUsable(f"the example image cannot be made: {last}")


def _require_simulated_devices(client: httpx.Client) -> None:
    """Start a container with a device that only the simulated driver could know."""
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
        made = _told(client.post("/containers/create", json=body))["Id"]
        try:
            _told(client.post(f"/containers/{made}/start"))
        finally:
            with contextlib.suppress(httpx.HTTPError):
                client.delete(f"/containers/{made}", params={"force": "true"})
    except httpx.HTTPError as error:
        raise NotUsable(f"the Docker Engine stopped answering: {error}") from error


def _told(answer: httpx.Response) -> dict[str, Any]:
    said: dict[str, Any] = answer.json() if answer.content else {}
    if not answer.is_success:
        message = str(said.get("message", answer.status_code)).splitlines()[0]
        raise NotUsable(f"the Docker Engine takes no simulated GPU ({message})")
    return said
