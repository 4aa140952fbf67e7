"""Connects to a Docker Engine at an API version that both sides know.

The agent, `agents doctor` and the drill all connect here, so none of them reports an engine that
another cannot use. An engine refuses versions outside its own range: 29.0 all below 1.44 (moby
#51186), later ones all below 1.40 (moby #52067).
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import docker
from docker import DockerClient
from docker.errors import DockerException

from agents.runtime.base import RuntimeFailure

# From the first with device requests (Engine 19.03) to that of Engine 29.0; the tests cover both.
OLDEST_API, NEWEST_API = "1.40", "1.52"
# Used wherever the engine has it: every engine from 25.0 to 29 does.
PREFERRED_API = "1.44"
TIMEOUT_SECONDS = 60
START_ENGINE = "Start it: sudo systemctl start docker"
_API = re.compile(r"(\d+)\.(\d+)")


@dataclass(frozen=True, slots=True)
class EngineApi:
    """The API versions of an engine, and the one that is used with it."""

    engine: str
    oldest: str
    newest: str
    used: str


@dataclass(frozen=True, slots=True)
class EngineConnection:
    """A client, and what the engine reported about itself when it was connected."""

    client: DockerClient
    api: EngineApi
    # The engine's `GET /info`.
    info: Mapping[str, Any]


def connect_engine(timeout: int = TIMEOUT_SECONDS) -> EngineConnection:
    """The engine that DOCKER_HOST names, else the machine's own. `timeout`: seconds for an answer.

    Raises RuntimeFailure with a sentence."""
    try:
        api = _negotiated_api(timeout)
        client = docker.from_env(version=api.used, timeout=timeout)
        try:
            return EngineConnection(client, api, client.info())
        except BaseException:
            client.close()
            raise
    except (DockerException, OSError) as error:
        sentence = f"no Docker Engine answers: {error}. {START_ENGINE}"
        raise RuntimeFailure("docker", sentence) from error


def negotiated_api(version: Mapping[str, Any]) -> EngineApi:
    """From an engine's `GET /version`. Raises RuntimeFailure if no version is known to both."""
    engine = str(version.get("Version", ""))
    newest = str(version.get("ApiVersion", ""))
    # Engines before 1.13 report no minimum.
    oldest = str(version.get("MinAPIVersion") or newest)
    if not (_API.fullmatch(newest) and _API.fullmatch(oldest)):
        raise RuntimeFailure("docker", f"Docker Engine {engine} reports no API version")
    ranges = f"it has API {oldest} to {newest}, this agent {OLDEST_API} to {NEWEST_API}"
    if _number(newest) < _number(OLDEST_API):
        sentence = f"Docker Engine {engine} is too old ({ranges}): install 20.10 or newer"
        raise RuntimeFailure("docker", sentence)
    if _number(oldest) > _number(NEWEST_API):
        sentence = f"Docker Engine {engine} is too new ({ranges}): upgrade the agent"
        raise RuntimeFailure("docker", sentence)
    used = min(max(PREFERRED_API, oldest, key=_number), newest, key=_number)
    return EngineApi(engine, oldest, newest, used)


def _negotiated_api(timeout: int) -> EngineApi:
    """Not by the SDK: it takes the engine's newest version, and leaves a socket open on a failure.

    The version given here is not used: the path of this one request has none."""
    probe = docker.from_env(version=OLDEST_API, timeout=timeout)
    try:
        return negotiated_api(probe.version(api_version=False))
    finally:
        probe.close()


def _number(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")))
