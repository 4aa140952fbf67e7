"""The volumes that an engine keeps by its drivers, as the node's policy offers them."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from docker import DockerClient
from docker.errors import DockerException, NotFound
from requests.exceptions import RequestException

from agents.runtime.base import RuntimeFailure


@dataclass(frozen=True, slots=True)
class EngineVolume:
    """One that exists."""

    driver: str
    options: Mapping[str, str]
    labels: Mapping[str, str]


def volume_drivers(info: Mapping[str, Any]) -> frozenset[str]:
    """Those that an engine has, by its `GET /info`."""
    return frozenset(info.get("Plugins", {}).get("Volume") or ())


class DockerVolumes:
    """Of one engine. Thread-safe, as its client is."""

    def __init__(self, client: DockerClient) -> None:
        self._client = client

    def drivers(self) -> frozenset[str]:
        """Those that the engine has now. Raises RuntimeFailure."""
        try:
            return volume_drivers(self._client.info())
        except (DockerException, RequestException) as error:
            raise RuntimeFailure("docker", f"the Docker Engine does not answer: {error}") from error

    def find(self, name: str) -> EngineVolume | None:
        """Raises RuntimeFailure."""
        try:
            attrs = self._client.volumes.get(name).attrs
        except NotFound:
            return None
        except (DockerException, RequestException) as error:
            raise RuntimeFailure("docker", f"the Docker Engine does not answer: {error}") from error
        return EngineVolume(attrs["Driver"], attrs["Options"] or {}, attrs["Labels"] or {})
