"""Every test here may ask for a node on a real engine, and for the folders of a GPU's shares."""

from tests.docker.docker_node import docker_node
from tests.unit.mps.conftest import home, var

__all__ = ["docker_node", "home", "var"]
