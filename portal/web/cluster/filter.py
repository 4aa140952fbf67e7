"""Which nodes a cluster page shows: narrowed, grouped and paged by the URL. Pure."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from urllib.parse import urlencode

from django.utils.functional import Promise
from django.utils.translation import gettext_lazy

from portal.availability.nodes import NodeDigest

# A page has so many nodes, or groups; of more than DRAWN_ALL nodes only the first DRAWN are drawn.
PAGE, DRAWN_ALL, DRAWN = 50, 8, 4
MOST_TEXT = 64
# In a URL, the group of the nodes that have no pool, or no rack.
WITHOUT = "~"
STATES: dict[str, str | Promise] = {
    "free": gettext_lazy("something is free"),
    "full": gettext_lazy("nothing is free"),
    "out": gettext_lazy("a GPU is out of service"),
    "closed": gettext_lazy("takes no new work"),
}
GROUPS: dict[str, str | Promise] = {
    "pool": gettext_lazy("pool"),
    "model": gettext_lazy("model"),
    "rack": gettext_lazy("rack"),
}


@dataclass(frozen=True, slots=True)
class Wanted:
    """What the URL asks for. What it asks for that does not exist is left out. `group`: a line for
    each pool, model or rack instead of each node; `of`: the nodes of this one."""

    text: str = ""
    model: str = ""
    state: str = ""
    fits: str = ""
    group: str = ""
    of: str = ""
    page: int = 1

    @property
    def is_grouped(self) -> bool:
        """Groups are shown, not nodes."""
        return bool(self.group and not self.of)

    @property
    def group_word(self) -> str | Promise:
        return GROUPS.get(self.group, "")

    @property
    def of_word(self) -> str | Promise:
        """The group that was opened, for people."""
        return gettext_lazy("without one") if self.of == WITHOUT else self.of

    @property
    def is_narrowed(self) -> bool:
        return any((self.text, self.model, self.state, self.fits))

    @property
    def query(self) -> str:
        """As a URL has it; empty where nothing is asked for."""
        told = {"q": self.text, "model": self.model, "state": self.state, "fits": self.fits}
        told |= {"group": self.group, "of": self.of}
        told |= {"page": str(self.page) if self.page > 1 else ""}
        return urlencode({name: value for name, value in told.items() if value})

    def on(self, page: int) -> "Wanted":
        return replace(self, page=page)

    def within(self, group: str) -> "Wanted":
        """The same in one group; in all of them for ""."""
        return replace(self, of=group, page=1)


def wanted(given: Mapping[str, str]) -> Wanted:
    """Reads the URL's parameters; control characters and what is too long are cut away."""
    state, group = given.get("state", ""), given.get("group", "")
    page = given.get("page", "1")
    return Wanted(
        text=_word(given.get("q", "")),
        model=_word(given.get("model", "")),
        state=state if state in STATES else "",
        fits=_word(given.get("fits", "")),
        group=group if group in GROUPS else "",
        of=_word(given.get("of", "")) if group in GROUPS else "",
        page=int(page) if page.isascii() and page.isdigit() and int(page[:6]) > 0 else 1,
    )


@dataclass(frozen=True, slots=True)
class Group:
    """Nodes that share a pool, a model or a rack, in sums. `query`: the page with these nodes."""

    name: str
    query: str
    nodes: int
    gpus: int
    held_units: int
    free: int
    idle: int
    out: int


@dataclass(frozen=True, slots=True)
class Shown:
    """What this page of `pages` has: groups, or else nodes. `matching`: all nodes that were asked
    for; `drawn`: names of the nodes on this page that are drawn."""

    groups: tuple[Group, ...]
    nodes: tuple[NodeDigest, ...]
    matching: tuple[NodeDigest, ...]
    drawn: tuple[str, ...]
    page: int
    pages: int


def shown(nodes: Iterable[NodeDigest], want: Wanted) -> Shown:
    found = tuple(node for node in nodes if _matches(node, want))
    groups = tuple(_groups(found, want)) if want.is_grouped else ()
    pages = max(1, -(-len(groups if want.is_grouped else found) // PAGE))
    page = min(want.page, pages)
    here = slice((page - 1) * PAGE, page * PAGE)
    listed = () if want.is_grouped else found[here]
    drawn = [node.name for node in listed]
    if len(found) > DRAWN_ALL:
        drawn = [node.name for node in listed if node.gpus][:DRAWN]
    return Shown(groups[here], listed, found, tuple(drawn), page, pages)


def _groups(found: Iterable[NodeDigest], want: Wanted) -> Iterable[Group]:
    """By name; those without one first."""
    by: dict[str, list[NodeDigest]] = {}
    for node in found:
        by.setdefault(_group_of(node, want.group), []).append(node)
    for name, nodes in sorted(by.items()):
        yield Group(
            name=name,
            query=want.within(name or WITHOUT).query,
            nodes=len(nodes),
            gpus=sum(node.gpus for node in nodes),
            held_units=sum(node.held_units for node in nodes),
            free=sum(node.free for node in nodes),
            idle=sum(node.idle for node in nodes),
            out=sum(node.out for node in nodes),
        )


def _group_of(node: NodeDigest, by: str) -> str:
    if by == "model":
        return ", ".join(sorted(set(node.models)))
    return node.label(by) if by else ""


def _matches(node: NodeDigest, want: Wanted) -> bool:
    text = want.text.lower()
    if text and not any(text in word.lower() for word in (node.name, *node.labels, *node.models)):
        return False
    if want.model and want.model not in node.models:
        return False
    if want.of and (_group_of(node, want.group) or WITHOUT) != want.of:
        return False
    if want.fits and not node.has_room_for(want.fits):
        return False
    match want.state:
        case "free":
            return bool(node.free or node.idle or node.can_carve)
        case "full":
            return node.takes_work and not (node.free or node.idle or node.can_carve)
        case "out":
            return node.out > 0
        case "closed":
            return not node.takes_work
    return True


def _word(text: str) -> str:
    return "".join(c for c in text if c.isprintable()).strip()[:MOST_TEXT]
