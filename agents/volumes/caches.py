"""The shared caches that this node's jobs have now.

A job runs without a cache that cannot be used: it fetches by itself what it does not find.
"""

from collections.abc import Iterator

from agents.admission.shared_caches import SharedCache
from agents.contract.caches import OfferedCache, is_cache_of
from agents.volumes.folders import FolderRefused
from agents.volumes.root_watch import FolderWatch


class SharedCaches:
    """The caches of the policy, each with why it cannot be used."""

    def __init__(self, caches: tuple[SharedCache, ...]) -> None:
        self._watches = [(cache, FolderWatch(cache.folder, for_all_users=True)) for cache in caches]

    def offered(self) -> tuple[OfferedCache, ...]:
        """Those that answer. Looks again where that is due, without waiting."""
        return tuple(
            OfferedCache(cache.name, cache.variable, cache.projects)
            for cache, watch in self._watches
            if watch.current() is not None
        )

    def problems(self) -> tuple[str, ...]:
        """Sentences about caches that jobs do without now."""
        return tuple(
            f"Jobs run without the cache {cache.name}: {watch.problem}"
            for cache, watch in self._watches
            if watch.problem
        )

    def of_project(self, project: str) -> Iterator[tuple[SharedCache, str]]:
        """Those that its jobs have, with their folders on this node."""
        for cache, watch in self._watches:
            if is_cache_of(project, cache.projects):
                try:
                    yield cache, watch.folder(read_only=True)
                except FolderRefused as refused:
                    watch.problem = str(refused)
