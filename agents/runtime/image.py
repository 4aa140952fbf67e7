"""Checks the environment of an image before a container is created from it."""

from collections.abc import Collection, Iterable
from typing import Any

from agents.contract.environment import is_barred_from_images
from agents.contract.image_needs import (
    MAX_ARCHITECTURE_LENGTH,
    ImageNeeds,
    image_requirements,
)
from agents.runtime.base import RuntimeFailure

CODE, NO_PROGRAM = "image_env", "image_program"


def image_env_refusal(env: Iterable[str], ours: Collection[str]) -> str:
    """Why an image with this `env` ("NAME=value") is refused, or "". Pure.

    Names in `ours`, which the agent sets, are safe: a container's own values replace those of its
    image. An empty value has no effect.

    LD_PRELOAD of an image was a way out of the container (CVE-2025-23266): hooks of the container
    toolkit inherited it, as root on the host. `agents.doctor` blocks those toolkits; this check
    does not depend on the toolkit.
    """
    for entry in env:
        name, _, value = entry.partition("=")
        if value and name not in ours and is_barred_from_images(name):
            return (
                f"the image sets {name}, which is not allowed: build it without, or set it inside"
                f" the container, such as env {name}=... program"
            )
    return ""


def image_program(attrs: dict[str, Any], arguments: list[str]) -> list[str]:
    """The image's entrypoint with these arguments, or with its own if there are none. Pure. Raises
    RuntimeFailure(image_program) if that is no program."""
    config = attrs.get("Config") or {}
    words = [*(config.get("Entrypoint") or ()), *(arguments or config.get("Cmd") or ())]
    if not words:
        raise RuntimeFailure(NO_PROGRAM, "the image has no program of its own: write a command")
    return words


def image_folder(attrs: dict[str, Any]) -> str:
    """Where the image's program starts, "" if it does not say. Pure."""
    return str((attrs.get("Config") or {}).get("WorkingDir") or "")


def image_variables(attrs: dict[str, Any]) -> dict[str, str]:
    """What the image sets. Pure."""
    entries = (entry.partition("=") for entry in (attrs.get("Config") or {}).get("Env") or ())
    return {name: value for name, _, value in entries}


def image_needs(attrs: dict[str, Any], architecture: str) -> ImageNeeds:
    """What it needs of a node. On a machine of this architecture, an image of another one is here
    only if there is none for this. Pure."""
    env = (attrs.get("Config") or {}).get("Env") or ()
    of_image = str(attrs.get("Architecture") or "")[:MAX_ARCHITECTURE_LENGTH]
    is_foreign = of_image and architecture and of_image != architecture
    return ImageNeeds(image_requirements(env), of_image if is_foreign else "")


def require_allowed_env(attrs: dict[str, Any], ours: Collection[str]) -> None:
    """`attrs`: the engine's description of an image. Raises RuntimeFailure(image_env)."""
    config = attrs.get("Config") or {}
    if why := image_env_refusal(config.get("Env") or (), ours):
        raise RuntimeFailure(CODE, why)
