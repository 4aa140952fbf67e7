"""Which nodes a cluster page shows: narrowed, grouped and paged by the URL. Pure."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import groupby
from urllib.parse import urlencode

from django.utils.functional import Promise
from django.utils.translation import gettext_lazy

from portal.inventory.digest import NodeDigest

# A page has so many nodes; where there are more than DRAWN_ALL, only the first DRAWN are drawn.
PAGE, DRAWN_ALL, DRAWN = 50, 8, 4
MOST_TEXT = 64
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
    """What the URL asks for. What it asks for that does not exist is left out."""

    text: str = ""
    model: str = ""
    state: str = ""
    fits: str = ""
    group: str = ""
    page: int = 1

    @property
    def is_narrowed(self) -> bool:
        return any((self.text, self.model, self.state, self.fits))

    @property
    def query(self) -> str:
        """As a URL has it; empty where nothing is asked for."""
        told = {"q": self.text, "model": self.model, "state": self.state, "fits": self.fits}
        told |= {"group": self.group, "page": str(self.page) if self.page > 1 else ""}
        return urlencode({name: value for name, value in told.items() if value})

    def on(self, page: int) -> "Wanted":
        return replace(self, page=page)


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
        page=int(page) if page.isascii() and page.isdigit() and int(page[:6]) > 0 else 1,
    )


@dataclass(frozen=True, slots=True)
class Group:
    """Nodes that share a pool, a model or a rack; `nodes` are those on this page, `count` all."""

    name: str
    count: int
    gpus: int
    free: int
    idle: int
    nodes: tuple[NodeDigest, ...]


@dataclass(frozen=True, slots=True)
class Shown:
    """`drawn`: names of the nodes on this page that are drawn; `pages`: how many there are."""

    groups: tuple[Group, ...]
    matching: tuple[NodeDigest, ...]
    drawn: tuple[str, ...]
    page: int
    pages: int


def shown(nodes: Iterable[NodeDigest], want: Wanted) -> Shown:
    found = [node for node in nodes if _matches(node, want)]
    found.sort(key=lambda node: (_group_of(node, want.group), node.name))
    pages = max(1, -(-len(found) // PAGE))
    page = min(want.page, pages)
    here = found[(page - 1) * PAGE : page * PAGE]
    names = [node.name for node in here]
    drawn = names if len(found) <= DRAWN_ALL else names[:DRAWN]
    groups = tuple(_groups(found, {node.id for node in here}, want.group))
    return Shown(groups, tuple(found), tuple(drawn), page, pages)


def _groups(found: list[NodeDigest], here: set[object], by: str) -> Iterable[Group]:
    """Those that begin or go on on this page."""
    for name, some in groupby(found, key=lambda node: _group_of(node, by)):
        nodes = list(some)
        on_page = tuple(node for node in nodes if node.id in here)
        if on_page:
            gpus, free = sum(n.gpus for n in nodes), sum(n.free for n in nodes)
            idle = sum(n.idle for n in nodes)
            yield Group(name, len(nodes), gpus, free, idle, on_page)


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
    if want.fits and not node.has_room_for(want.fits):
        return False
    match want.state:
        case "free":
            return bool(node.free or node.idle or _carvable(node))
        case "full":
            return node.takes_work and not (node.free or node.idle or _carvable(node))
        case "out":
            return node.out > 0
        case "closed":
            return not node.takes_work
    return True


def _carvable(node: NodeDigest) -> bool:
    return node.takes_work and any(of.fits.total() for of in node.boards)


def _word(text: str) -> str:
    return "".join(c for c in text if c.isprintable()).strip()[:MOST_TEXT]
