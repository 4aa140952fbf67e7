"""What pages read, scoped to the user: jobs by state, the quota ring, the cluster in one line."""

from dataclasses import dataclass
from datetime import timedelta

from django.db.models import Sum
from django.utils import timezone

from portal.accounts.models import Membership, Project, User
from portal.allocations.selectors import slice_holders
from portal.inventory.selectors import gpus
from portal.jobs.models import Allocation, Job
from portal.quotas.models import Quota
from portal.web.cluster.map import MapViewer, NodeMap, draw_nodes

RING_LENGTH = 289.03  # the circumference of the ring's circle, radius 46


@dataclass(frozen=True, slots=True)
class QuotaRing:
    """A project's quota in units. `arcs`: (class, length, offset) along the circle."""

    project: str
    limit_units: int
    used_units: int
    own_units: int

    @property
    def others_units(self) -> int:
        return max(0, self.used_units - self.own_units)

    @property
    def free_units(self) -> int:
        return max(0, self.limit_units - self.used_units)

    @property
    def arcs(self) -> list[tuple[str, float, float]]:
        whole = max(1, self.limit_units)
        mine = RING_LENGTH * min(self.own_units, whole) / whole
        others = RING_LENGTH * min(self.others_units, whole) / whole
        return [("ring-on", round(mine, 1), 0), ("ring-team", round(others, 1), round(-mine, 1))]


def own_jobs(user: User) -> dict[str, list[Job]]:
    """The user's own jobs: running, waiting, ended since yesterday. Three queries."""
    mine = Job.objects.filter(owner=user).select_related("project", "owner")
    since = timezone.localtime().replace(hour=0, minute=0) - timedelta(days=1)
    ended = mine.final().filter(finished_at__gte=since)
    return {
        "running": list(mine.allocated().order_by("-id")[:20]),
        "waiting": list(mine.waiting().order_by("position", "id")[:20]),
        "ended": list(ended.order_by("-finished_at")[:8]),
    }


def queue_length() -> int:
    """How many jobs wait in the queue, of everybody."""
    return Job.objects.queued().count()


def quota_ring(user: User, project: Project) -> QuotaRing | None:
    """The project's quota and how much of it the user holds."""
    quota = Quota.objects.filter(project=project, user__isnull=True, model="").first()
    if quota is None:
        return None
    live = Allocation.objects.live().filter(project=project)
    mine = live.filter(user=user).aggregate(units=Sum("units"))["units"] or 0
    return QuotaRing(project.slug, quota.limit_units, quota.used_units, mine)


def cluster_maps(user: User) -> list[NodeMap]:
    """Every node's drawing, in a constant number of queries."""
    team = frozenset(Membership.objects.filter(user=user).values_list("project__slug", flat=True))
    return draw_nodes(gpus(), slice_holders(user), MapViewer(user.username, team))
