"""Which bytes an image is, from what the engine knows of it. Pure."""

from collections.abc import Mapping
from typing import Any

from agents.contract.image_digest import is_local, local_digest
from agents.contract.image_reference import ImageReferenceError, pinned_image, read_image


def image_digests(attrs: Mapping[str, Any], image: str) -> tuple[str, ...]:
    """By which digests these bytes can be pulled under the name `image`, and its id. `attrs`: the
    engine's description of the image. The first is what is reported."""
    here = _repository(image)
    names = (name.rpartition("@") for name in attrs.get("RepoDigests") or ())
    found = sorted(digest for name, _, digest in names if here and _repository(name) == here)
    return (*found, local_digest(str(attrs.get("Id", ""))))


def exact_name(image: str, digest: str, attrs: Mapping[str, Any]) -> str:
    """The name by which an engine runs just these bytes, wherever the tag points by then."""
    return str(attrs["Id"]) if is_local(digest) else pinned_image(image, digest)


def _repository(name: str) -> tuple[str, ...]:
    """Host and path; empty for what is no name of an image."""
    try:
        found = read_image(name)
    except ImageReferenceError:
        return ()
    return (found.host, *found.segments)
