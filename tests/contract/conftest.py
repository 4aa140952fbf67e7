"""The fixture of a node on a real engine, for the Docker half of these tests."""

from tests.docker.docker_node import docker_node

__all__ = ["docker_node"]
