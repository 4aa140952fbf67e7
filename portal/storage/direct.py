"""The bucket as nodes reach it by themselves: by URLs that are signed here, each for one object.

A node writes only to arrivals, never to an object that counts: it could change that until its URL
ends. What arrives is copied within the bucket and read here before it counts.
"""

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

from django.conf import settings

from portal.platform import Platform
from portal.storage.objects import ObjectStore
from portal.storage.stores import current_store

if TYPE_CHECKING:
    from portal.storage.s3 import UrlSigner

# A part of 4 MiB passes in this time at 14 kB/s.
URL_SECONDS = 300


@dataclass(frozen=True, slots=True)
class DirectBucket:
    """Where nodes may send and fetch."""

    store: ObjectStore
    _signer: "UrlSigner"

    def put_url(self, name: str, size: int) -> str:
        """For a PUT of so many bytes."""
        return self._signer.put_url(name, size, URL_SECONDS)

    def get_url(self, name: str) -> str:
        return self._signer.get_url(name, URL_SECONDS)


def direct_bucket() -> DirectBucket | None:
    """None where all bytes of nodes go through the portal. No request is made."""
    platform: Platform = settings.PLATFORM
    if not (platform.direct_transfer and platform.s3_bucket):
        return None
    return DirectBucket(current_store(), _signer(platform))


@cache
def _signer(platform: Platform) -> "UrlSigner":
    # Imported late: boto3 is installed only where a bucket is used.
    from portal.storage.s3 import UrlSigner  # noqa: PLC0415

    return UrlSigner(platform)
