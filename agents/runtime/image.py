"""What an image brings by itself, judged before a container is made of it."""

from collections.abc import Collection, Iterable
from typing import Any

from agents.contract.environment import is_barred_from_images
from agents.runtime.base import RuntimeFailure

CODE = "image_env"


def image_env_refusal(env: Iterable[str], ours: Collection[str]) -> str:
    """Why no container is made of an image with this `env` ("NAME=value"), or "". Pure.

    What is among `ours`, the names that the agent sets, cannot get through: a container's own
    values replace those of its image. An empty value asks for nothing.

    LD_PRELOAD of an image was a way out of the container (CVE-2025-23266): hooks of the container
    toolkit inherited it, as root of the host. `agents.doctor` blocks those toolkits; this holds
    whatever the toolkit does.
    """
    for entry in env:
        name, _, value = entry.partition("=")
        if value and name not in ours and is_barred_from_images(name):
            return (
                f"the image sets {name}, which no image may: build it without, or set it inside"
                f" the container, such as env {name}=... program"
            )
    return ""


def require_allowed_env(attrs: dict[str, Any], ours: Collection[str]) -> None:
    """`attrs`: what the engine says of an image. Raises RuntimeFailure(image_env)."""
    config = attrs.get("Config") or {}
    if why := image_env_refusal(config.get("Env") or (), ours):
        raise RuntimeFailure(CODE, why)
