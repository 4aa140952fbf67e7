"""The images of a Docker Engine, as replicas may use them."""

import math
import time
from dataclasses import dataclass
from typing import Any

from docker import DockerClient
from docker.errors import ImageNotFound
from docker.models.images import Image

from agents.contract.documents import DesiredReplica
from agents.contract.image_needs import ImageNeeds
from agents.contract.registries import RegistryCredential
from agents.facts.images import WantedImage
from agents.host.architecture import architecture
from agents.images.digests import exact_name, image_digests
from agents.images.records import ImageRecords
from agents.runtime.base import RuntimeFailure
from agents.runtime.docker_image_cache import DockerImageCache
from agents.runtime.docker_pull import DockerPull
from agents.runtime.image import image_needs
from agents.runtime.image_pull import ImageAbsent

# For how long the creation of a container trusts what was known of its image before.
INSPECTED_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class ChosenImage:
    """The bytes that a container is made of."""

    # The name that means these bytes for ever.
    name: str
    digest: str
    # The engine's description.
    attrs: dict[str, Any]


class DockerImages:
    def __init__(
        self, client: DockerClient, records: ImageRecords, cache: DockerImageCache
    ) -> None:
        self._client = client
        self._records = records
        self._cache = cache
        # When each was looked at.
        self._inspected: dict[WantedImage, tuple[float, Image | None]] = {}

    def require(self, image: WantedImage) -> None:
        """Raises ImageAbsent also for one that is here, but that its project was not granted."""
        self._inspected[image] = (time.monotonic(), self._find(image))

    def needs(self, image: WantedImage) -> ImageNeeds:
        """Of what `require` has just looked at, or of what is found now. Raises ImageAbsent."""
        return image_needs(self._looked_at(image).attrs, architecture())

    def new_pull(self, image: WantedImage, credential: RegistryCredential | None) -> DockerPull:
        grown = self._cache.prune_soon
        return DockerPull(self._client.api, image, self._records, credential, grown)

    def choose(self, replica: DesiredReplica, image: WantedImage) -> ChosenImage:
        """What `require` has just looked at, or looks at now. Raises ImageAbsent, and
        RuntimeFailure if it is not what the replica has to have."""
        attrs = self._looked_at(image).attrs
        self._inspected.pop(image, None)
        digests = image_digests(attrs, replica.image)
        if replica.image_digest and replica.image_digest not in digests:
            sentence = (
                f"{replica.image} is another image on this node than for the other ranks or the "
                f"attempt before, which have {replica.image_digest}"
            )
            raise RuntimeFailure("image_differs", sentence)
        digest = replica.image_digest or digests[0]
        self._records.use(str(attrs["Id"]))
        return ChosenImage(exact_name(replica.image, digest, attrs), digest, attrs)

    def _looked_at(self, image: WantedImage) -> Image:
        at, found = self._inspected.get(image, (-math.inf, None))
        is_fresh = time.monotonic() < at + INSPECTED_SECONDS
        return found if found is not None and is_fresh else self._find(image)

    def _find(self, image: WantedImage) -> Image:
        try:
            found = self._client.images.get(image.name)
        except ImageNotFound as error:
            raise ImageAbsent(image) from error
        if not self._records.may_run(str(found.id), {image.name, *found.tags}, image.project):
            raise ImageAbsent(image)
        return found
