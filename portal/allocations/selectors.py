"""Read who holds which slice, as far as a user may know."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db.models import Q

from portal.accounts.models import Membership, User
from portal.jobs.models import Allocation


@dataclass(frozen=True, slots=True)
class SliceHolder:
    """The job that holds a slice. All fields are empty where the user is not in its project."""

    job: str = ""
    name: str = ""
    project: str = ""
    owner: str = ""
    rank: int | None = None
    # When the job reaches its time limit; None before it runs.
    until: datetime | None = None


def slice_holders(user: User, *, condition: Q | None = None) -> dict[UUID, SliceHolder]:
    """The holder of each allocated slice, by slice id. Two queries for any number of slices.

    Everyone may see that a slice is allocated; which job has it only members of its project and
    platform admins.
    """
    job = "replica__attempt__job__"
    rows = (
        Allocation.objects.live()
        .filter(condition or Q())
        .values_list(
            *("slice_id", "project_id", job + "pk", job + "name", "project__slug"),
            *("user__username", "replica__rank", job + "deadline_at"),
        )
    )
    own: set[Any] = set(Membership.objects.filter(user=user).values_list("project_id", flat=True))
    sees_all = user.is_platform_admin
    return {
        slice_id: SliceHolder(f"J-{job_id}", *facts)
        if sees_all or project_id in own
        else SliceHolder()
        for slice_id, project_id, job_id, *facts in rows
    }


def slice_holders_on_nodes(user: User, nodes: Iterable[str]) -> dict[UUID, SliceHolder]:
    """The holders of slices on these nodes, given by name."""
    return slice_holders(user, condition=Q(slice__gpu__node__name__in=list(nodes)))
