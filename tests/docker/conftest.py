"""Every test here may ask for a node on a real engine."""

from tests.docker.docker_node import docker_node

__all__ = ["docker_node"]
