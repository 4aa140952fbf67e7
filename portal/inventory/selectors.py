"""Read nodes, GPUs and slices."""

from django.db.models import Count, F, OuterRef, Prefetch, QuerySet, Subquery
from django.db.models.functions import Coalesce

from portal.inventory.models import DisputedClaim, Gpu, JoinToken, Node, Slice

# Columns of a node that lists do not show.
LARGE = ("desired", "facts", "topology")


def nodes() -> QuerySet[Node]:
    """Every node with its number of GPUs (`gpu_count`), without its desired document."""
    own = Gpu.objects.filter(node=OuterRef("pk")).order_by().values("node")
    count = Coalesce(Subquery(own.annotate(n=Count("pk")).values("n")), 0)
    return Node.objects.annotate(gpu_count=count).defer("desired").order_by("name")


def nodes_matching(words: list[str]) -> QuerySet[Node, str]:
    """The names of nodes that have each word in their name. Everyone may see them."""
    rows = Node.objects.active().order_by("name")
    for word in words:
        rows = rows.filter(name__icontains=word)
    return rows.values_list("name", flat=True)


def gpus() -> QuerySet[Gpu]:
    """Every GPU with its node and live slices (`live_slices`). Two queries."""
    live = Slice.objects.live().order_by("start", "id")
    rows = (
        Gpu.objects.select_related("node")
        .defer("node__desired", "node__topology")
        .prefetch_related(Prefetch("slices", queryset=live, to_attr="live_slices"))
    )
    return rows.order_by("node__name", "index")


def slices() -> QuerySet[Slice]:
    """Every live slice with its GPU and node, in the order of their positions."""
    rows = Slice.objects.live().select_related("gpu__node")
    rows = rows.defer("gpu__node__desired", "gpu__node__topology")
    return rows.order_by("gpu__node__name", "gpu__index", "start", "id")


def disputed_claims() -> QuerySet[DisputedClaim]:
    """Claims that are still made, the undecided ones first, with GPU, holder and claimant."""
    rows = DisputedClaim.objects.current().select_related("gpu__node", "claimant")
    rows = rows.defer(*(f"{node}__{name}" for node in ("gpu__node", "claimant") for name in LARGE))
    return rows.order_by(F("dismissed_at").asc(nulls_first=True), "id")


def unused_join_token(node: Node) -> JoinToken | None:
    """The newest join token of the node that nothing has used; it may have expired."""
    return JoinToken.objects.filter(node=node, used_at=None).order_by("-id").first()
