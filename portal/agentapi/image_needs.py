"""What a node reports of the images of its replicas: read once for each that needs something."""

from datetime import datetime
from uuid import UUID

from django.db import transaction

from agents.contract.documents import ObservedDocument
from agents.contract.image_needs import ImageNeeds
from portal.images.services import image_needs_learn
from portal.inventory.models import Node

MAX_REPLICAS = 20_000

# By replica, what this process has stored of its image.
_learned: dict[UUID, ImageNeeds] = {}


def image_needs_report(node: Node, observed: ObservedDocument, now: datetime) -> None:
    found: dict[UUID, ImageNeeds] = {}
    for replica in observed.replicas:
        if replica.image_needs:
            try:
                found[UUID(replica.id)] = replica.image_needs
            except ValueError:
                continue
    new = {pk: needs for pk, needs in found.items() if _learned.get(pk) != needs}
    if new:
        image_needs_learn(node=node, needs_by_replica=new, now=now)
        transaction.on_commit(lambda: _keep(new))


def _keep(new: dict[UUID, ImageNeeds]) -> None:
    if len(_learned) > MAX_REPLICAS:
        _learned.clear()
    _learned.update(new)
