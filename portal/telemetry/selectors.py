"""Read the latest sensor samples, as far as a user may see them."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime

from agents.contract.codec import decode
from agents.contract.errors import ContractError
from agents.contract.telemetry import GpuSample
from portal.accounts.models import Membership, User
from portal.allocations.models import Allocation
from portal.inventory.models import LatestSample


@dataclass(frozen=True, slots=True)
class GpuReading:
    """A GPU's sample; None if it would reveal the activity of another project."""

    node: str
    index: int
    taken_at: datetime
    sample: GpuSample | None


def gpu_readings(user: User, *, nodes: Iterable[str] | None = None) -> Iterator[GpuReading]:
    """Readings of these nodes, or of all, by node and index. GPUs without a sample are left out.
    Three queries."""
    names = None if nodes is None else list(nodes)
    hidden = _hidden(user, names)
    rows = LatestSample.objects.select_related("gpu__node")
    if names is not None:
        rows = rows.filter(gpu__node__name__in=names)
    rows = rows.only("taken_at", "sample", "gpu__index", "gpu__node__name")
    for row in rows.order_by("gpu__node__name", "gpu__index"):
        sample = None if row.gpu_id in hidden else _sample(row)
        if sample is not None or row.gpu_id in hidden:
            yield GpuReading(row.gpu.node.name, row.gpu.index, row.taken_at, sample)


def _sample(row: LatestSample) -> GpuSample | None:
    """None for a sample that an incompatible version wrote."""
    try:
        return decode(GpuSample, row.sample)
    except ContractError:
        return None


def _hidden(user: User, nodes: list[str] | None) -> set[object]:
    """GPUs with allocations of projects that the user is not in. Platform admins see all."""
    if user.is_platform_admin:
        return set()
    mine = Membership.objects.filter(user=user).values("project_id")
    others = Allocation.objects.live().exclude(project_id__in=mine)
    if nodes is not None:
        others = others.filter(slice__gpu__node__name__in=nodes)
    return set(others.values_list("slice__gpu_id", flat=True))
