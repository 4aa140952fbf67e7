"""Every page by the name of its route, and its address in a world of the tests of rights."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from django.urls import URLPattern, get_resolver
from django.urls.resolvers import URLResolver

from tests.support.rights import World

# They have matrices of their own: REST, and the admin console.
ELSEWHERE = ("api:", "admin:")


def routes(resolver: URLResolver, prefix: str = "", space: str = "") -> Iterator[tuple[str, str]]:
    """Every named route with its whole pattern."""
    for entry in resolver.url_patterns:
        pattern = prefix + str(entry.pattern)
        if isinstance(entry, URLPattern):
            yield f"{space}{entry.name or pattern}", pattern
        else:
            inner = f"{space}{entry.namespace}:" if entry.namespace else space
            yield from routes(entry, pattern, inner)


PAGES = {
    name: pattern for name, pattern in routes(get_resolver()) if not name.startswith(ELSEWHERE)
}


# What streams gives its database connection back, which nothing can undo: the same, by `get`.
STREAMS: dict[str, tuple[int, int, int, int, int, int]] = {
    "web:cluster_stream": (200, 200, 200, 200, 200, 401),
    "web:jobs_csv": (200, 200, 200, 200, 200, 302),
    "web:home_stream": (200, 200, 200, 200, 200, 401),
    "web:jobs_stream": (200, 200, 200, 200, 200, 401),
    "web:array_stream": (200, 200, 200, 200, 200, 401),
    "web:raw_log": (200, 200, 404, 200, 200, 302),
    "web:tree_archive": (200, 200, 404, 200, 200, 302),
    # Without a path.
    "web:tree_file": (404, 404, 404, 404, 404, 302),
    "web:tree_image": (404, 404, 404, 404, 404, 302),
    "web:queue_csv": (200, 200, 200, 200, 200, 302),
    "web:queue_stream": (200, 200, 200, 200, 200, 401),
    "web:request_stream": (200, 200, 200, 200, 200, 401),
    "web:what_if_stream": (404, 404, 404, 404, 200, 401),
    "web:node_stream": (404, 404, 404, 404, 200, 401),
    "web:job_stream": (200, 200, 404, 200, 200, 401),
}


def with_names_of_pages(world: World) -> World:
    """The same rows; more parts of addresses have a value."""
    more = {
        "provider_id": "none",
        "organization_slug": "none",
        "index": "0",
        "pk": world.names["template"],
    }
    return replace(world, names=world.names | more)


def address_of(world: World, page: str) -> str:
    if page.startswith("web:user"):
        world.names["name"] = "olga"
    if page == "web:app_token_revoke":
        world.names["key"] = world.names["app_token"]
    if page.startswith("web:webhook"):
        world.names["ref"] = world.names["webhook"]
    return world.address(PAGES[page])
