"""The fixtures of a node on a real engine and of the folders of MPS shares."""

from tests.docker.docker_node import docker_node
from tests.unit.mps.conftest import home, var

__all__ = ["docker_node", "home", "var"]
