"""The docker half of the suites here asks for a node on a real engine."""

from tests.docker.docker_node import docker_node

__all__ = ["docker_node"]
