"""The rows that nodes, as the planner's values, are made of: of all nodes, or of some. Tuples.

Every column that is read here is watched by `portal.planning.changes`.
"""

from collections.abc import Callable, Collection
from typing import Any
from uuid import UUID

from django.db.models import F, OuterRef, QuerySet, Subquery, Sum, TextField
from django.db.models.fields.json import KT
from django.db.models.functions import Cast

from portal.allocations.models import Allocation
from portal.allocations.selectors import allocated_replicas
from portal.database.kept_queries import KeptSelect, ListOf
from portal.inventory.models import Gpu, Node, Slice
from portal.jobs.models import Replica

NODE_COLUMNS = (
    *("id", "name", "status", "schedulable", "cordon_reason", "holding_since", "restored_at"),
    *("fabric", "cpu_milli", "memory_mib", "disk_mib", "labels", "taints"),
    *("facts__blocks", "facts__launchers", "facts__share_clients", "facts__volume_roots"),
    *("facts__overlay", "facts__rdma", "facts__git_hosts", "facts__limits_egress"),
)
# JSON as text: a version that looks like a number stays a string.
TEXTS = (
    *(KT("facts__agent_version"), Cast("topology", TextField())),
    *(KT("facts__cuda_version"), KT("facts__driver_version"), KT("facts__architecture")),
)
GPU_COLUMNS = (
    *("node_id", "id", "index", "board", "product_name", "memory_mib", "desired_mode", "health"),
    *("busy", "numa_node", "profiles", "pinned", "settles_at"),
)
SLICE_COLUMNS = (
    *("gpu_id", "id", "kind", "profile", "start", "size", "status", "busy", "threads"),
    *("memory_mib", "clients"),
)
_Rows = QuerySet[Any, Any]


def _of_nodes(
    node: str, of: Callable[[_Rows], _Rows], rows: Callable[[], _Rows]
) -> Callable[[Collection[UUID] | None], list[Any]]:
    """`of`: the columns of `rows` in their order; `node`: the column of `rows` with the node."""
    every: KeptSelect[Any] = KeptSelect(lambda: of(rows()))
    some: KeptSelect[Any] = KeptSelect(
        lambda nodes: of(rows().filter(**{f"{node}__in": nodes})), ListOf(Node._meta.pk)
    )
    return lambda only: every.rows() if only is None else some.rows(list(only))


def _allocated_sums(live: _Rows) -> _Rows:
    amounts = ("cpu_milli", "memory_mib", "disk_mib")
    return (
        Replica.objects.filter(pk__in=live.values("pk"))
        .order_by()
        .values("node_id")
        .annotate(
            **{
                f"all_{name}": Sum(F(f"attempt__job__{name}") * F("attempt__joined_replicas"))
                for name in amounts
            }
        )
        .values_list("node_id", *(f"all_{name}" for name in amounts))
    )


def _live_slices() -> _Rows:
    allocated = Allocation.objects.live().filter(slice=OuterRef("pk")).order_by()
    return Slice.objects.live().annotate(project=Subquery(allocated.values("project__slug")[:1]))


read_nodes = _of_nodes(
    "pk", lambda rows: rows.order_by().values_list(*NODE_COLUMNS, *TEXTS), Node.objects.all
)
read_sums = _of_nodes("node__pk", _allocated_sums, allocated_replicas)
read_gpus = _of_nodes(
    "node__pk",
    # By id as well: after a correction by hand, two GPUs of a node may have one index.
    lambda rows: rows.order_by("node_id", "index", "id").values_list(*GPU_COLUMNS),
    Gpu.objects.all,
)
read_slices = _of_nodes(
    "gpu__node__pk",
    lambda rows: rows.order_by("gpu_id", "start", "id").values_list(*SLICE_COLUMNS, F("project")),
    _live_slices,
)
