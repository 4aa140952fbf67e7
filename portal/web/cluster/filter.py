"""Which nodes the Cluster page shows: filtered, grouped and paged by the URL. Pure."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from urllib.parse import urlencode

from django.utils.functional import Promise
from django.utils.translation import gettext_lazy

from portal.availability.nodes import NodeSummary
from scheduler.core.availability.counts import Availability, Category, availability_sum

# Nodes or groups on a page. Up to MAX_NODES_ALL_DRAWN matching nodes are all drawn; of more, only
# the first DRAWN_NODES of the page.
PAGE_SIZE, MAX_NODES_ALL_DRAWN, DRAWN_NODES = 50, 8, 4
MAX_TEXT_LENGTH = 64
# Names, in a URL, the group of nodes without a pool or a rack.
NO_GROUP = "~"
STATES: dict[str, str | Promise] = {
    "free": gettext_lazy("has free capacity"),
    "full": gettext_lazy("no free capacity"),
    "out": gettext_lazy("has a GPU out of service"),
    "closed": gettext_lazy("takes no new work"),
}
GROUPS: dict[str, str | Promise] = {
    "pool": gettext_lazy("pool"),
    "model": gettext_lazy("model"),
    "rack": gettext_lazy("rack"),
}


@dataclass(frozen=True, slots=True)
class NodeFilter:
    """The filter that the URL describes; unknown states and groups are dropped."""

    text: str = ""
    model: str = ""
    state: str = ""
    fits: str = ""
    # Show a line for each pool, model or rack instead of each node ...
    group: str = ""
    # ... or the nodes of this one.
    group_value: str = ""
    page: int = 1

    @property
    def is_grouped(self) -> bool:
        """The page lists groups, not nodes."""
        return bool(self.group and not self.group_value)

    @property
    def group_label(self) -> str | Promise:
        return GROUPS.get(self.group, "")

    @property
    def group_value_label(self) -> str | Promise:
        """Name of the opened group, for people."""
        return gettext_lazy("none") if self.group_value == NO_GROUP else self.group_value

    @property
    def is_active(self) -> bool:
        return any((self.text, self.model, self.state, self.fits))

    @property
    def query(self) -> str:
        """The query string, empty without a filter."""
        params = {"q": self.text, "model": self.model, "state": self.state, "fits": self.fits}
        params |= {"group": self.group, "of": self.group_value}
        params |= {"page": str(self.page) if self.page > 1 else ""}
        return urlencode({name: value for name, value in params.items() if value})

    def with_page(self, page: int) -> "NodeFilter":
        return replace(self, page=page)

    def in_group(self, group: str) -> "NodeFilter":
        """The same filter inside one group; "" for all groups."""
        return replace(self, group_value=group, page=1)


def read_filter(params: Mapping[str, str]) -> NodeFilter:
    """Read the URL's parameters, without control characters and cut to MAX_TEXT_LENGTH."""
    state, group = params.get("state", ""), params.get("group", "")
    page = params.get("page", "1")
    return NodeFilter(
        text=_word(params.get("q", "")),
        model=_word(params.get("model", "")),
        state=state if state in STATES else "",
        fits=_word(params.get("fits", "")),
        group=group if group in GROUPS else "",
        group_value=_word(params.get("of", "")) if group in GROUPS else "",
        page=int(page) if page.isascii() and page.isdigit() and int(page[:6]) > 0 else 1,
    )


@dataclass(frozen=True, slots=True)
class NodeGroup:
    """Totals of the nodes that share a pool, a model or a rack."""

    name: str
    # Query string of the page that lists these nodes.
    query: str
    nodes: int
    total: Availability

    @property
    def held_units(self) -> int:
        return self.total.units[Category.HELD]


@dataclass(frozen=True, slots=True)
class ClusterPage:
    """One page of the list: either groups or nodes."""

    groups: tuple[NodeGroup, ...]
    nodes: tuple[NodeSummary, ...]
    # The nodes of all pages.
    matching: tuple[NodeSummary, ...]
    # Names of the nodes on this page that are drawn.
    drawn: tuple[str, ...]
    page: int
    pages: int


def cluster_page(nodes: Iterable[NodeSummary], node_filter: NodeFilter) -> ClusterPage:
    matching = tuple(node for node in nodes if _matches(node, node_filter))
    groups = tuple(_groups(matching, node_filter)) if node_filter.is_grouped else ()
    pages = max(1, -(-len(groups if node_filter.is_grouped else matching) // PAGE_SIZE))
    page = min(node_filter.page, pages)
    rows = slice((page - 1) * PAGE_SIZE, page * PAGE_SIZE)
    listed = () if node_filter.is_grouped else matching[rows]
    drawn = [node.name for node in listed]
    if len(matching) > MAX_NODES_ALL_DRAWN:
        drawn = [node.name for node in listed if node.total.gpus][:DRAWN_NODES]
    return ClusterPage(groups[rows], listed, matching, tuple(drawn), page, pages)


def _groups(matching: Iterable[NodeSummary], want: NodeFilter) -> Iterable[NodeGroup]:
    """In the order of their names; the nodes without one come first."""
    members: dict[str, list[NodeSummary]] = {}
    for node in matching:
        members.setdefault(_group_of(node, want.group), []).append(node)
    for name, nodes in sorted(members.items()):
        yield NodeGroup(
            name=name,
            query=want.in_group(name or NO_GROUP).query,
            nodes=len(nodes),
            total=availability_sum(node.total for node in nodes),
        )


def _group_of(node: NodeSummary, key: str) -> str:
    if key == "model":
        return ", ".join(sorted(set(node.models)))
    return node.label(key) if key else ""


def _matches(node: NodeSummary, want: NodeFilter) -> bool:
    text = want.text.lower()
    if text and not any(text in word.lower() for word in (node.name, *node.labels, *node.models)):
        return False
    if want.model and want.model not in node.models:
        return False
    if want.group_value and (_group_of(node, want.group) or NO_GROUP) != want.group_value:
        return False
    if want.fits and not node.has_room_for(want.fits):
        return False
    match want.state:
        case "free":
            return node.total.has_room
        case "full":
            return node.takes_work and not node.total.has_room
        case "out":
            return node.total.out_of_service > 0
        case "closed":
            return not node.takes_work
    return True


def _word(text: str) -> str:
    return "".join(c for c in text if c.isprintable()).strip()[:MAX_TEXT_LENGTH]
