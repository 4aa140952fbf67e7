"""Containers of a replica that never ran: which of them is as the replica is to have it."""

from typing import Any

from docker.models.containers import Container

from agents.runtime.docker_recipe import LABEL


def is_stale(summary: dict[str, Any], digest: str) -> bool:
    """Whether a container never ran, and its image does not have the digest that it has to."""
    is_other = digest and summary["Labels"].get(f"{LABEL}image") != digest
    return bool(is_other) and summary["State"] == "created"


def has_environment(container: Container, env: dict[str, str]) -> bool:
    """Whether the container was created with this environment, devices included."""
    return {f"{name}={value}" for name, value in env.items()} <= {*container.attrs["Config"]["Env"]}


def set_aside(container: Container) -> None:
    """Free its name for another container."""
    aside = f"-{container.short_id}"
    if not (container.name or "").endswith(aside):
        container.rename(f"{container.name}{aside}")
