"""The shared caches in the policy file: `caches` by name.

[caches.models]
path = "/mnt/models/hub"
variable = "HF_HUB_CACHE"
projects = ["vision", "speech"]
mounted = true
"""

from dataclasses import dataclass
from typing import Any

from agents.admission.volume_roots import VolumeRoot, read_folder_root
from agents.contract.caches import MAX_CACHE_PROJECTS, MAX_CACHES
from agents.contract.environment import is_barred_from_images, is_environment_name, is_reserved

KEYS = {"path", "variable", "projects", "mounted"}
# Of a job's own, or of every program.
KEPT_NAMES = frozenset(
    ("HOME", "LANG", "LOGNAME", "PATH", "PYTHONPATH", "SHELL", "TMPDIR", "TZ", "USER")
)


@dataclass(frozen=True, slots=True)
class SharedCache:
    """A folder of this machine that jobs of some projects read."""

    folder: VolumeRoot
    # As in OfferedCache.
    variable: str
    projects: tuple[str, ...]

    @property
    def name(self) -> str:
        return self.folder.name


def read_shared_caches(value: Any) -> tuple[SharedCache, ...]:
    """Raises ValueError with what to write instead."""
    if not isinstance(value, dict) or len(value) > MAX_CACHES:
        raise ValueError(f"must be at most {MAX_CACHES} tables, such as [caches.models]")
    caches = tuple(_cache(name, value[name]) for name in sorted(value))
    variables = [cache.variable for cache in caches]
    for cache in caches:
        if variables.count(cache.variable) > 1:
            raise ValueError(f"{cache.name}: another cache has the variable {cache.variable} too")
    return caches


def _cache(name: str, keys: Any) -> SharedCache:
    if not isinstance(keys, dict) or not {"path", "variable", "projects"} <= keys.keys() <= KEYS:
        raise ValueError(f"{name}: write path, variable and projects, and mounted if it is one")
    variable, projects = keys["variable"], keys["projects"]
    if not isinstance(variable, str) or not _may_name(variable):
        raise ValueError(
            f"{name}: variable must be a name that programs read, such as HF_HUB_CACHE, and none "
            "that Tessera sets"
        )
    is_list = isinstance(projects, list) and 0 < len(projects) <= MAX_CACHE_PROJECTS
    if not is_list or not all(isinstance(each, str) and each for each in projects):
        raise ValueError(f'{name}: projects must be a list of short names, or ["*"] for all')
    place = {key: keys[key] for key in ("path", "mounted") if key in keys}
    folder = read_folder_root(name, place | {"read_only": True})
    return SharedCache(folder, variable, tuple(projects))


def _may_name(variable: str) -> bool:
    is_ours = is_reserved(variable) or is_barred_from_images(variable) or variable in KEPT_NAMES
    return is_environment_name(variable) and not is_ours
