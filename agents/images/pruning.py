"""Which images are removed when there are too many. Pure."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from agents.contract.image_reference import ImageReferenceError, is_image_allowed, read_image
from agents.host.job_disk import DiskReserve, parse_reserve
from agents.images.records import STEP_SECONDS, ImageRecord

OFF = "off"
# A container of it may be about to be made. Its last use may be a step later than is written.
FRESH_SECONDS = STEP_SECONDS + 600.0


@dataclass(frozen=True, slots=True)
class CachedImage:
    """An image of the engine."""

    id: str
    # Tags, and names with a digest.
    names: tuple[str, ...]
    # A container has it, running or not.
    is_used: bool


def read_cache_limit(text: str) -> DiskReserve | None:
    """Of all images together: "60%" of the engine's disk, or "500GiB"; None for "off". Raises
    argparse.ArgumentTypeError."""
    return None if text == OFF else parse_reserve(text)


def removable_images(
    images: Iterable[CachedImage],
    records: Mapping[str, ImageRecord],
    keep: Collection[str],
    now: float,
) -> list[CachedImage]:
    """The least recently used first: pulled by this agent, under no tag that someone else made, in
    no container, and not to be kept by a pattern of the policy."""
    free = [image for image in images if image.id in records and not image.is_used]
    found = [
        image
        for image in free
        if now - records[image.id].used_at > FRESH_SECONDS
        and not any(is_image_allowed(name, keep) for name in image.names)
        and _tags(image.names) <= _tags(records[image.id].names)
    ]
    return sorted(found, key=lambda image: records[image.id].used_at)


def _tags(names: Iterable[str]) -> set[str]:
    """In full, of those that are no names with a digest."""
    found = set()
    for name in names:
        try:
            found.add(str(read_image(name)))
        except ImageReferenceError:
            found.add(name)
    return {name for name in found if "@" not in name}
