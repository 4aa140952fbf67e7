"""The sites of this installation, by name."""

import re

from portal.jobs.models import OWN_NODES
from scheduler.sites.base import Site
from scheduler.sites.own_nodes import OwnNodes

# Its length fits `Attempt.site` and the name of the site's lease.
NAME = re.compile(r"[a-z][a-z0-9-]{0,23}")

own_nodes = OwnNodes()
_sites: dict[str, Site] = {OWN_NODES: own_nodes}


def register(site: Site) -> None:
    """Add a site. Raises ValueError for an invalid name and for the name of another site."""
    if not NAME.fullmatch(site.name):
        raise ValueError(f"{site.name!r}: use a-z, 0-9 and hyphens, at most 24 characters")
    if _sites.setdefault(site.name, site) is not site:
        raise ValueError(f"there is a site {site.name} already")


def unregister(name: str) -> None:
    """Remove a site. Its open attempts are silent from then on."""
    if name != OWN_NODES:
        _sites.pop(name, None)


def all_sites() -> tuple[Site, ...]:
    return tuple(_sites.values())


def site_named(name: str) -> Site | None:
    return _sites.get(name)
