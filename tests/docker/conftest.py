"""The fixtures of real engines, of a node on one, and of the folders of MPS shares."""

from tests.docker.docker_node import docker_node
from tests.docker.own_engine import engine
from tests.unit.mps.conftest import home, var

__all__ = ["docker_node", "engine", "home", "var"]
