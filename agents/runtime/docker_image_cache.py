"""Removes images that a Docker Engine has no room for, by the node's policy."""

import logging
import shutil
import threading
from collections.abc import Mapping
from typing import Any

from docker import DockerClient
from docker.errors import APIError, ImageNotFound

from agents.admission.policy import NodePolicy
from agents.images.pruning import CachedImage, read_cache_limit, removable_images
from agents.images.records import ImageRecords

log = logging.getLogger("agents.runtime.images")


class DockerImageCache:
    """`info`: what the engine reported about itself."""

    def __init__(
        self,
        client: DockerClient,
        records: ImageRecords,
        policy: NodePolicy,
        info: Mapping[str, Any],
    ) -> None:
        self._client = client
        self._records = records
        self._keep = policy.keep_images
        self._limit = read_cache_limit(policy.image_cache)
        self._folder = str(info.get("DockerRootDir", ""))
        self._lock = threading.Lock()

    def prune_soon(self) -> None:
        """In a thread of its own, as a pull has made the cache larger."""
        if self._limit is not None:
            threading.Thread(target=self._prune_quietly, name="images", daemon=True).start()

    def prune(self) -> list[str]:
        """Until what is left is within the limit, or may not be removed. Returns the names of what
        was removed."""
        limit = self._limit_bytes()
        removed: list[str] = []
        failed: set[str] = set()
        with self._lock:
            while limit is not None:
                size, images = self._usage()
                found = removable_images(
                    images, self._records.all(), self._keep, self._records.now()
                )
                image = next((image for image in found if image.id not in failed), None)
                if size <= limit or image is None:
                    break
                if self._remove(image, size, limit):
                    removed += image.names
                failed.add(image.id)
        return removed

    def _prune_quietly(self) -> None:
        try:
            self.prune()
        except Exception:
            log.exception("images_not_pruned")

    def _limit_bytes(self) -> int | None:
        """None without a limit, or for a part of a disk that cannot be seen from here."""
        if self._limit is None:
            return None
        if self._limit.mib:
            return self._limit.mib << 20
        try:
            total = shutil.disk_usage(self._folder).total
        except OSError as error:
            log.warning("images_not_pruned", extra={"why": str(error)})
            return None
        return self._limit.reserved_mib(total >> 20) << 20

    def _usage(self) -> tuple[int, list[CachedImage]]:
        """How many bytes the layers of all images have together, and the images."""
        began, known, api = self._records.now(), set(self._records.all()), self._client.api
        # Not `df()`, which also walks through every container and volume.
        answer = api.get(f"{api.base_url}/v{api.api_version}/system/df", params={"type": "image"})
        answer.raise_for_status()
        usage = answer.json()
        rows = usage.get("Images") or ()
        images = [_cached_image(row) for row in rows]
        self._records.forget(known - {image.id for image in images}, unused_since=began)
        return int(usage.get("LayersSize") or sum(row["Size"] for row in rows)), images

    def _remove(self, image: CachedImage, size: int, limit: int) -> bool:
        """False if the engine refuses, as for an image that a container has got meanwhile."""
        try:
            for name in image.names:
                try:
                    self._client.images.remove(name)
                except ImageNotFound:
                    continue  # with its last tag, its digests are gone
        except APIError as refused:
            log.info("image_kept", extra={"image": image.names[0], "why": str(refused)})
            return False
        mib = {"images_mib": size >> 20, "limit_mib": limit >> 20}
        log.info("image_removed", extra={"image": image.names[0], **mib})
        return True


def _cached_image(row: Mapping[str, Any]) -> CachedImage:
    names = [*(row.get("RepoTags") or ()), *(row.get("RepoDigests") or ())]
    held = tuple(name for name in names if "<none>" not in name) or (str(row["Id"]),)
    return CachedImage(str(row["Id"]), held, bool(row.get("Containers")))
