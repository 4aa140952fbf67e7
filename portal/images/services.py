"""Learn what images need from the reports of nodes that have them."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from uuid import UUID

from django.db import transaction

from agents.contract.image_needs import ImageNeeds
from portal.images.models import ImageNeed
from portal.inventory.models import Node
from portal.jobs.models import Replica
from portal.live.bell import ring_plan

# Of a row that says the same already.
SEEN_AGAIN_AFTER = timedelta(days=1)


def image_needs_learn(
    *, node: Node, needs_by_replica: Mapping[UUID, ImageNeeds], now: datetime
) -> None:
    """Store what the images of replicas need: of those that are on this node. Two statements, and
    one more if something is new."""
    rows = Replica.objects.filter(pk__in=needs_by_replica, node=node, attempt__ended_at=None)
    columns = rows.values_list("pk", "attempt__job__image")
    images = {image: needs_by_replica[pk] for pk, image in columns if image}
    with transaction.atomic():
        stored = {row.image: row for row in ImageNeed.objects.filter(image__in=images)}
        # In one order for all, as two nodes may learn the same images at once.
        new = [
            _row(image, images[image], now)
            for image in sorted(images)
            if not _says(stored.get(image), images[image], now)
        ]
        if new:
            ImageNeed.objects.bulk_create(
                new,
                update_conflicts=True,
                unique_fields=["image"],
                update_fields=["requirements", "architecture", "seen_at"],
            )
            ring_plan()


def _row(image: str, needs: ImageNeeds, now: datetime) -> ImageNeed:
    return ImageNeed(
        image=image,
        requirements=list(needs.requirements),
        architecture=needs.architecture,
        seen_at=now,
    )


def _says(row: ImageNeed | None, needs: ImageNeeds, now: datetime) -> bool:
    if row is None or row.seen_at < now - SEEN_AGAIN_AFTER:
        return False
    return (tuple(row.requirements), row.architecture) == (needs.requirements, needs.architecture)
