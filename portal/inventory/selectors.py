"""Reads nodes, GPUs and slices, with who holds what as far as the asking user may know."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db.models import Count, Prefetch, Q, QuerySet

from portal.accounts.models import Membership, User
from portal.inventory.models import Gpu, Node, Slice
from portal.jobs.models import Allocation
from scheduler.core.states import ALLOCATION_LIVE, SLICE_LIVE

LIVE = [str(status) for status in ALLOCATION_LIVE]


@dataclass(frozen=True, slots=True)
class Holder:
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
    return Node.objects.annotate(gpu_count=Count("gpus")).defer("desired").order_by("name")


def gpus() -> QuerySet[Gpu]:
    """Every GPU with its node and live slices (`live_slices`). Two queries."""
    ready = Prefetch("slices", queryset=slices(), to_attr="live_slices")
    rows = (
        Gpu.objects.select_related("node")
        .defer("node__desired", "node__topology")
        .prefetch_related(ready)
    )
    return rows.order_by("node__name", "index")


def slices() -> QuerySet[Slice]:
    """Every live slice with its GPU and node, in the order in which they sit on the board."""
    rows = Slice.objects.filter(status__in=[str(status) for status in SLICE_LIVE])
    rows = rows.select_related("gpu__node").defer("gpu__node__desired", "gpu__node__topology")
    return rows.order_by("gpu__node__name", "gpu__index", "start", "id")


def holders(user: User, *, of: Q | None = None) -> dict[UUID, Holder]:
    """The holder of each held slice, by slice id. Two queries, whatever the number of slices.

    Everyone sees that a slice is held; the job's name only people of its project and platform
    admins.
    """
    rows = Allocation.objects.filter(of or Q(), status__in=LIVE)
    rows = rows.select_related("replica__attempt__job", "project", "user")
    known: set[Any] = set(Membership.objects.filter(user=user).values_list("project_id", flat=True))
    is_known = user.is_platform_admin
    return {
        row.slice_id: _holder(row) if is_known or row.project_id in known else Holder()
        for row in rows
    }


def holders_on(user: User, nodes: Iterable[str]) -> dict[UUID, Holder]:
    """The same, of slices on these nodes."""
    return holders(user, of=Q(slice__gpu__node__name__in=list(nodes)))


def _holder(row: Allocation) -> Holder:
    job = row.replica.attempt.job
    return Holder(
        job=job.label,
        name=job.name,
        project=row.project.slug,
        owner=row.user.username,
        rank=row.replica.rank,
        until=job.deadline_at,
    )
