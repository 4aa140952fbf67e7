"""The protocol of a site.

Rows hold the desired state: an open attempt is to run, a replica with the desired state `stop` or
`gone` is to end. A site brings its work to that state and reports what it observes; it decides
nothing about jobs. Every verb may be called twice, and the next sweep makes up for a lost call.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Protocol

from agents.contract.documents import SliceKind
from portal.audit.transitions import SYSTEM
from portal.sites.observations import Observation
from scheduler.core.model.decisions import JobPlacement


class SiteUnreachableError(Exception):
    """The site does not answer. What it carries out may still run."""


@dataclass(frozen=True, slots=True)
class SiteCapabilities:
    """What a site offers."""

    boards: frozenset[str]
    """Keys of the boards of its GPUs."""
    kinds: frozenset[SliceKind]
    """The kinds of its devices."""
    max_replicas: int
    """Of one attempt."""


@dataclass(frozen=True, slots=True)
class SiteReport:
    """What a site observes now."""

    observations: tuple[Observation, ...] = ()
    silent: Mapping[int, str] = field(default_factory=dict)
    """By attempt: the silent part of the site, such as a node, that carries it out."""
    actor: str = SYSTEM
    """Who is named in the history."""


class Site(Protocol):
    """A place that carries out attempts."""

    @property
    def name(self) -> str:
        """As in `Attempt.site`."""
        ...

    def capabilities(self) -> SiteCapabilities: ...

    def begin(self, placement: JobPlacement, bypassed: tuple[str, ...] = ()) -> bool:
        """Give a queued job an attempt here: its rows, its devices and the units of its quotas, in
        one transaction. False, and nothing written, if the job or the site has changed meanwhile.
        """
        ...

    def drive(self, attempts: Collection[int] | None = None) -> None:
        """Start what is to run and stop what is to end, of these attempts or of all.

        Raises SiteUnreachableError.
        """
        ...

    def observe(self, now: datetime) -> SiteReport:
        """What the site has not reported by itself. Raises SiteUnreachableError."""
        ...

    def release(self) -> bool:
        """Mark the devices of ended replicas of which nothing is left here: the next planning pass
        frees them and their quota. Returns whether there are any. Raises SiteUnreachableError."""
        ...
