"""Reads nodes, GPUs and slices, with who holds what as far as the asking user may know."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db.models import Count, OuterRef, Prefetch, Q, QuerySet, Subquery
from django.db.models.functions import Coalesce

from portal.accounts.models import Membership, User
from portal.inventory.models import Gpu, Node, Slice
from portal.jobs.models import Allocation
from scheduler.core.model.states import ALLOCATION_LIVE, SLICE_LIVE

LIVE = [str(status) for status in ALLOCATION_LIVE]
LIVE_SLICES = [str(status) for status in SLICE_LIVE]


@dataclass(frozen=True, slots=True)
class SliceHolder:
    """Who holds a slice. All fields are empty for a job of a project that the user is not in.
    `until`: when its time limit ends it; None before it runs."""

    job: str = ""
    name: str = ""
    project: str = ""
    owner: str = ""
    rank: int | None = None
    until: datetime | None = None


def nodes() -> QuerySet[Node]:
    """Every node with its number of GPUs (`gpu_count`), and without its large documents."""
    own = Gpu.objects.filter(node=OuterRef("pk")).order_by().values("node")
    count = Coalesce(Subquery(own.annotate(n=Count("pk")).values("n")), 0)
    return Node.objects.annotate(gpu_count=count).defer("desired").order_by("name")


def gpus() -> QuerySet[Gpu]:
    """Every GPU with its node and live slices (`live_slices`). Two queries."""
    live = Slice.objects.filter(status__in=LIVE_SLICES).order_by("start", "id")
    ready = Prefetch("slices", queryset=live, to_attr="live_slices")
    rows = (
        Gpu.objects.select_related("node")
        .defer("node__desired", "node__topology")
        .prefetch_related(ready)
    )
    return rows.order_by("node__name", "index")


def slices() -> QuerySet[Slice]:
    """Every live slice with its GPU and node, in the order in which they sit on the board."""
    rows = Slice.objects.filter(status__in=LIVE_SLICES)
    rows = rows.select_related("gpu__node").defer("gpu__node__desired", "gpu__node__topology")
    return rows.order_by("gpu__node__name", "gpu__index", "start", "id")


def slice_holders(user: User, *, condition: Q | None = None) -> dict[UUID, SliceHolder]:
    """The holder of each held slice, by slice id. Two queries, whatever the number of slices.

    Everyone sees that a slice is held; the job's name only people of its project and platform
    admins.
    """
    job = "replica__attempt__job__"
    rows = Allocation.objects.filter(condition or Q(), status__in=LIVE).values_list(
        *("slice_id", "project_id", job + "pk", job + "name", "project__slug"),
        *("user__username", "replica__rank", job + "deadline_at"),
    )
    known: set[Any] = set(Membership.objects.filter(user=user).values_list("project_id", flat=True))
    is_known = user.is_platform_admin
    return {
        held: SliceHolder(f"J-{job_id}", *told) if is_known or project in known else SliceHolder()
        for held, project, job_id, *told in rows
    }


def slice_holders_on_nodes(user: User, nodes: Iterable[str]) -> dict[UUID, SliceHolder]:
    """The same, of slices on these nodes."""
    return slice_holders(user, condition=Q(slice__gpu__node__name__in=list(nodes)))
