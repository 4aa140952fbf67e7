"""Shared caches: folders of a node that the jobs of some projects read, such as of model weights.

A node's owner names them in its policy, with their projects. The portal only tells people of them:
a job runs without one, where a volume would decide on which nodes it can run.
"""

import re
from collections.abc import Collection
from dataclasses import dataclass, field

from agents.contract.codec import rule
from agents.contract.environment import ENV_NAME
from agents.contract.volumes import ROOT_NAME

MAX_CACHES = 32
MAX_CACHE_PROJECTS = 256
EVERY_PROJECT = "*"


@dataclass(frozen=True, slots=True)
class OfferedCache:
    """A cache that the node's jobs have now."""

    name: str = field(metadata=rule(max_length=64, pattern=ROOT_NAME))
    # In the jobs of its projects it has the path of the folder, unless their request sets it.
    variable: str = field(metadata=rule(max_length=128, pattern=ENV_NAME.pattern))
    # Short names, or EVERY_PROJECT.
    projects: tuple[str, ...] = field(default=(), metadata=rule(max_length=MAX_CACHE_PROJECTS))


def is_cache_of(project: str, projects: Collection[str]) -> bool:
    """Whether jobs of this project read a cache of these `projects`."""
    return project in projects or EVERY_PROJECT in projects


def cache_path(name: str) -> str:
    """Where containers have it."""
    return f"/caches/{name}"


def cache_variable(name: str) -> str:
    """The variable that always has its path, and that no request can set."""
    return f"TESSERA_CACHE_{re.sub('[^A-Za-z0-9]', '_', name).upper()}"
