"""Credentials of registries, by project. A node asks for the one of a replica's image when it pulls
that image, in a call of its own; a document has neither its registry nor its user name."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from agents.contract.codec import rule
from agents.contract.image_reference import ImageReferenceError, read_image

PULL_CREDENTIAL_PATH = "/agent/v1/replicas/{replica}/pull-credential"  # POST, without a body

MAX_REGISTRY_LENGTH = 255
MAX_USER_LENGTH = 255
# Tokens of cloud registries have some thousand characters.
MAX_PASSWORD_BYTES = 16 << 10


@dataclass(frozen=True, slots=True)
class RegistryCredential:
    """What signs a pull in to a registry."""

    registry: str = field(metadata=rule(max_length=MAX_REGISTRY_LENGTH))
    """A host, or a host and the beginning of a path: "ghcr.io", "registry.example/team"."""
    user: str = field(metadata=rule(max_length=MAX_USER_LENGTH), repr=False)
    password: str = field(metadata=rule(max_length=MAX_PASSWORD_BYTES), repr=False)


@dataclass(frozen=True, slots=True)
class PullCredentialResponse:
    """The credential of the replica's project for the registry of its image, if it has one."""

    credential: RegistryCredential | None = None
    # The registry, if the portal cannot read the credential that it has.
    unreadable: str = field(default="", metadata=rule(max_length=MAX_REGISTRY_LENGTH))


def read_registry(text: str) -> str:
    """A registry as it is stored: its host, and the path that it is for. Raises
    ImageReferenceError."""
    # With two parts below it, it is none of Docker's own images, which lie in `library`.
    reference = read_image(f"{text}/some/image")
    return "/".join((reference.host, *reference.segments[:-2]))


def registry_of(image: str, registries: Iterable[str]) -> str | None:
    """The one that an image is in: the longest, if several are. Of registries as `read_registry`
    gives them."""
    try:
        reference = read_image(image)
    except ImageReferenceError:
        return None
    place = "/".join((reference.host, *reference.segments))
    found = (registry for registry in registries if place.startswith(f"{registry}/"))
    return max(found, key=len, default=None)
