"""What is known of images, kept by each process and read anew once a planning pass.

needs_of("nvcr.io/nvidia/pytorch:25.01-py3")  ─▶ ImageNeeds(("cuda>=12.8",))
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from django.db.models import DateTimeField

from agents.contract.image_needs import NO_NEEDS, ImageNeeds
from portal.database.kept_queries import KeptSelect
from portal.images.models import VALIDITY, ImageNeed

# The planner looks at no more.
MAX_IMAGES = 10_000

_ROWS: KeptSelect[tuple[Any, ...]] = KeptSelect(
    lambda since: (
        ImageNeed.objects.filter(seen_at__gt=since)
        .order_by("-seen_at", "pk")
        .values_list("image", "requirements", "architecture")[:MAX_IMAGES]
    ),
    DateTimeField(),
)
# By image, of the last refresh. Replaced as a whole: other threads read it.
_last: list[Mapping[str, ImageNeeds]] = [{}]


def image_needs_refresh(now: datetime) -> None:
    """One query. What did not change stays the same object."""
    rows = _ROWS.rows(now - VALIDITY)
    known = {image: ImageNeeds(tuple(texts), only) for image, texts, only in rows}
    before = _last[0]
    if known != before:
        _last[0] = {
            image: before[image] if before.get(image) == needs else needs
            for image, needs in known.items()
        }


def needs_of(image: str) -> ImageNeeds:
    """As of the last refresh in this process."""
    return _last[0].get(image, NO_NEEDS)


def clear() -> None:
    """Forget all: every test has its own database."""
    _last[0] = {}
