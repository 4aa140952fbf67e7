"""The shared caches that nodes offer, as the members of projects see them.

A node names the projects of each: only those of the asker are ever told.
"""

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from agents.contract.caches import cache_path, is_cache_of
from portal.inventory.models import Node
from scheduler.core.model.states import NodeStatus


@dataclass(frozen=True, slots=True)
class ProjectCache:
    """One cache, wherever it has the same name and the same variable."""

    name: str
    variable: str
    nodes: tuple[str, ...]
    projects: tuple[str, ...]
    """Those of the asker."""

    @property
    def path(self) -> str:
        """In a container."""
        return cache_path(self.name)


def caches_of_projects(projects: Collection[str]) -> list[ProjectCache]:
    """What jobs of these projects find on some node. One query."""
    nodes = Node.objects.filter(facts__has_key="caches").exclude(status=NodeStatus.RETIRED)
    return _merged(nodes.order_by("name").only("name", "facts"), projects)


def caches_on_nodes(nodes: Iterable[Node], project: str) -> list[ProjectCache]:
    """What jobs of the project find on these nodes. No query."""
    return _merged(nodes, (project,))


def _merged(nodes: Iterable[Node], projects: Collection[str]) -> list[ProjectCache]:
    found: dict[tuple[str, str], tuple[list[str], set[str]]] = {}
    for node in nodes:
        for each in node.facts.get("caches", ()):
            own = {slug for slug in projects if is_cache_of(slug, each["projects"])}
            if own:
                names, slugs = found.setdefault((each["name"], each["variable"]), ([], set()))
                names.append(node.name)
                slugs |= own
    return [
        ProjectCache(name, variable, tuple(dict.fromkeys(names)), tuple(sorted(slugs)))
        for (name, variable), (names, slugs) in sorted(found.items())
    ]
