"""Hierarchical fair share by project and user.

An owner's use is its dominant share (DRF, Ghodsi et al., NSDI 2011): the largest of GPU units, CPU
and memory, each as a part of the cluster. Shares and effective use follow Slurm's classic fair
share: S is the product of weight / weights of the siblings up the tree, and
U_eff = U + (U_parent - U) * S / S_siblings, so that a user also answers for the project.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from math import log

from agents.contract.units import UNITS_PER_GPU
from scheduler.core.model.policy import DAY
from scheduler.core.model.snapshot import ClusterSnapshot, OwnerView

# A sibling that used less than this part of what the largest one did, and has no waiting job, is
# inactive.
INACTIVE_PART = 1e-3
# A factor lies between 2^-1, as use is never negative, and 2^6.
MAX_DOUBLINGS = 6.0

# (project, user); user "" for the project itself.
OwnerKey = tuple[str, str]
# GPU units, millicores, MiB.
Amounts = tuple[int, int, int]


def decayed(amount: int, seconds: int, half_life_seconds: int) -> int:
    """What is left of `amount` after `seconds`: half after each half-life, rounded down."""
    halvings, rest = divmod(max(0, seconds), half_life_seconds)
    return int((amount >> halvings) * 2.0 ** (-rest / half_life_seconds))


def add_amounts(a: Amounts, b: Amounts) -> Amounts:
    return (a[0] + b[0], a[1] + b[1], a[2] + b[2])


@dataclass(frozen=True, slots=True)
class ClusterTotals:
    """What the whole cluster has: GPU units, millicores, MiB."""

    units: int
    cpu_milli: int
    memory_mib: int


def cluster_totals(snapshot: ClusterSnapshot) -> ClusterTotals:
    """Of all nodes, also unavailable ones: shares do not jump when a node reboots."""
    return ClusterTotals(
        sum(len(node.gpus) for node in snapshot.nodes) * UNITS_PER_GPU,
        sum(node.cpu_total_milli for node in snapshot.nodes),
        sum(node.memory_total_mib for node in snapshot.nodes),
    )


@dataclass(frozen=True, slots=True)
class FactorBreakdown:
    """A factor and what it was computed from. The first three are parts of the cluster."""

    share: float
    use: float
    effective_use: float
    factor: float
    """1.0 for an owner that used exactly its share, less for one that used less."""


@dataclass(slots=True)
class _Owner:
    part: float
    """Of the siblings' weights."""
    share: float
    """Of the cluster."""
    usage: list[int]
    """Amount-seconds: GPU units, millicores, MiB."""
    use: float = 0.0


@dataclass(slots=True)
class _Siblings:
    """The owners below one parent, by name."""

    weight: dict[str, int] = field(default_factory=dict)
    usage: dict[str, Amounts] = field(default_factory=dict)
    active: set[str] = field(default_factory=set)
    active_weight: int = 0


class FairShares:
    """Factors of one planning pass. They only grow as the pass places jobs.

    Shares are divided among active owners: those with waiting jobs and those with recent use. An
    inactive member costs the others nothing. An unknown owner has weight 1 and no use.
    """

    def __init__(
        self,
        owners: Iterable[OwnerView],
        totals: ClusterTotals,
        *,
        half_life_seconds: int = 7 * DAY,
        waiting_owners: Collection[OwnerKey] = (),
    ) -> None:
        """`owners`: with their use decayed to now."""
        # Constant use at rate r has decayed to r * half-life / ln 2 in the long run.
        window = half_life_seconds / log(2)
        amounts = (totals.units, totals.cpu_milli, totals.memory_mib)
        self._per_second = [1 / (window * each) if each else 0.0 for each in amounts]
        self._siblings: dict[str, _Siblings] = defaultdict(_Siblings)
        self._owners: dict[OwnerKey, _Owner] = {}
        self._read(tuple(owners))
        self._activate(waiting_owners)

    def factor(self, project: str, user: str) -> float:
        """2^(U_eff / (S (2 - S / S_siblings)) - 1), from 0.5 to 64. The divisor is the U_eff of an
        owner that used exactly its share, as did its project."""
        return self.breakdown(project, user).factor

    def breakdown(self, project: str, user: str) -> FactorBreakdown:
        """The factor of a user, or with user "" of a project, and its terms."""
        parent = self._owner((project, ""))
        if not user:
            return _breakdown(parent, parent.use, 1.0)
        own = self._owner((project, user))
        effective = own.use + (parent.use - own.use) * own.part
        return _breakdown(own, effective, 2 - own.part)

    def charge(
        self, project: str, user: str, units: int, cpu_milli: int, memory_mib: int, seconds: int
    ) -> None:
        """Count what this pass places for `seconds`, on the user and the project."""
        for key in {(project, ""), (project, user)}:
            owner = self._owner(key)
            for index, amount in enumerate((units, cpu_milli, memory_mib)):
                owner.usage[index] += amount * seconds
            owner.use = self._dominant(owner.usage)

    def _read(self, owners: tuple[OwnerView, ...]) -> None:
        of_users: dict[str, Amounts] = {}
        for owner in owners:
            usage = (owner.used_units, owner.used_cpu_milli, owner.used_memory_mib)
            siblings = self._siblings[owner.project if owner.user else ""]
            siblings.weight[owner.user or owner.project] = owner.weight
            siblings.usage[owner.user or owner.project] = usage
            if owner.user:
                of_users[owner.project] = add_amounts(of_users.get(owner.project, (0, 0, 0)), usage)
        projects = self._siblings[""].usage
        for project, usage in of_users.items():
            # A project used at least what its users did.
            projects[project] = _largest(projects.get(project, (0, 0, 0)), usage)

    def _activate(self, waiting_owners: Collection[OwnerKey]) -> None:
        for project, user in waiting_owners:
            self._siblings[""].active.add(project)
            if user:
                self._siblings[project].active.add(user)
        for siblings in self._siblings.values():
            uses = {name: self._dominant(usage) for name, usage in siblings.usage.items()}
            threshold = INACTIVE_PART * max(uses.values(), default=0.0)
            siblings.active |= {name for name, use in uses.items() if use and use >= threshold}
            siblings.active_weight = sum(siblings.weight.get(name, 1) for name in siblings.active)

    def _owner(self, key: OwnerKey) -> _Owner:
        if key not in self._owners:
            self._owners[key] = self._make(key)
        return self._owners[key]

    def _make(self, key: OwnerKey) -> _Owner:
        project, user = key
        siblings, name = self._siblings[project if user else ""], user or project
        weight = siblings.weight.get(name, 1)
        weights = siblings.active_weight + (0 if name in siblings.active else weight)
        part = weight / weights if weights else 1.0
        share = part * self._owner((project, "")).share if user else part
        usage = list(siblings.usage.get(name, (0, 0, 0)))
        return _Owner(part, share, usage, self._dominant(usage))

    def _dominant(self, usage: Iterable[int]) -> float:
        return max(u * each for u, each in zip(usage, self._per_second, strict=True))


def _breakdown(owner: _Owner, effective: float, exactly: float) -> FactorBreakdown:
    """`exactly`: effective use over share of an owner that used exactly its share."""
    ratio = effective / (owner.share * exactly) if owner.share else MAX_DOUBLINGS + 1
    factor = 2.0 ** min(ratio - 1, MAX_DOUBLINGS)
    return FactorBreakdown(owner.share, owner.use, effective, factor)


def _largest(a: Amounts, b: Amounts) -> Amounts:
    return (max(a[0], b[0]), max(a[1], b[1]), max(a[2], b[2]))
