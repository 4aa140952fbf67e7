"""Who had how much of what is due to them: hierarchical fair share by project and user.

An owner's use is its dominant share (DRF, Ghodsi et al., NSDI 2011): the largest of GPU units, CPU
and memory, each as a part of the cluster. Shares and effective use follow Slurm's classic fair
share: S is the product of weight / weights of the siblings up the tree, and
U_eff = U + (U_parent - U) * S / S_siblings, so that a user answers for the project, too.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from math import log

from agents.contract.units import UNITS_PER_GPU
from scheduler.core.model.policy import DAY
from scheduler.core.model.snapshot import ClusterSnapshot, OwnerView

# A sibling that used less than this part of the largest one, and asks for nothing, is away.
INACTIVE_PART = 1e-3
# A factor lies between 2^-1, since nobody uses less than nothing, and 2^6.
MAX_DOUBLINGS = 6.0

OwnerKey = tuple[str, str]
Amounts = tuple[int, int, int]


def decayed(amount: int, seconds: int, half_life_seconds: int) -> int:
    """What is left of `amount` after `seconds`: half after each half-life, rounded down."""
    halvings, rest = divmod(max(0, seconds), half_life_seconds)
    return int((amount >> halvings) * 2.0 ** (-rest / half_life_seconds))


@dataclass(frozen=True, slots=True)
class ClusterCapacity:
    """The whole cluster: units of GPU, millicores, MiB."""

    units: int
    cpu_milli: int
    memory_mib: int


def cluster_capacity(snapshot: ClusterSnapshot) -> ClusterCapacity:
    """All nodes, also those that are away: shares do not jump when a node reboots."""
    return ClusterCapacity(
        sum(len(node.gpus) for node in snapshot.nodes) * UNITS_PER_GPU,
        sum(node.cpu_total_milli for node in snapshot.nodes),
        sum(node.memory_total_mib for node in snapshot.nodes),
    )


@dataclass(frozen=True, slots=True)
class FactorBreakdown:
    """How a factor came about. `share`, `use`, `effective_use` are parts of the cluster, from 0;
    `factor` is 1.0 for who used its share exactly, less for who used less."""

    share: float
    use: float
    effective_use: float
    factor: float


@dataclass(slots=True)
class _Owner:
    """`part` of its siblings' weights and `share` of the cluster; `used` in amount-seconds."""

    part: float
    share: float
    used: list[int]
    use: float = 0.0


@dataclass(slots=True)
class _Siblings:
    """The owners below one parent by name: weight and use. `weights` counts who takes part."""

    weight: dict[str, int] = field(default_factory=dict)
    used: dict[str, Amounts] = field(default_factory=dict)
    weights: int = 0
    parts: set[str] = field(default_factory=set)


class FairShares:
    """Factors of one planning pass. They only grow as the pass places work.

    `owners`: their use is decayed to now. `asking`: (project, user) of those with waiting jobs;
    shares are divided among who asks or used something lately, so that members who are away cost
    nobody anything. An unknown owner has weight 1 and used nothing.
    """

    def __init__(
        self,
        owners: Iterable[OwnerView],
        capacity: ClusterCapacity,
        *,
        half_life_seconds: int = 7 * DAY,
        waiting_owners: Collection[OwnerKey] = (),
    ) -> None:
        # Constant use at rate r has decayed to r * half-life / ln 2 in the long run.
        window = half_life_seconds / log(2)
        amounts = (capacity.units, capacity.cpu_milli, capacity.memory_mib)
        self._per_second = [1 / (window * each) if each else 0.0 for each in amounts]
        self._siblings: dict[str, _Siblings] = defaultdict(_Siblings)
        self._known: dict[OwnerKey, _Owner] = {}
        self._read(tuple(owners))
        self._count(waiting_owners)

    def factor(self, project: str, user: str) -> float:
        """2^(U_eff / (S (2 - S / S_siblings)) - 1), from 0.5 to 64. The divisor is what U_eff
        is for who used its share exactly, as did its project."""
        return self.breakdown(project, user).factor

    def breakdown(self, project: str, user: str) -> FactorBreakdown:
        """The factor of a user, or with user "" of a project, and what it was made of."""
        parent = self._owner((project, ""))
        if not user:
            return _parts(parent, parent.use, 1.0)
        own = self._owner((project, user))
        effective = own.use + (parent.use - own.use) * own.part
        return _parts(own, effective, 2 - own.part)

    def charge(
        self, project: str, user: str, units: int, cpu_milli: int, memory_mib: int, seconds: int
    ) -> None:
        """Count what is placed in this pass for `seconds`, on the user and the project."""
        for key in {(project, ""), (project, user)}:
            owner = self._owner(key)
            for index, amount in enumerate((units, cpu_milli, memory_mib)):
                owner.used[index] += amount * seconds
            owner.use = self._dominant(owner.used)

    def _read(self, owners: tuple[OwnerView, ...]) -> None:
        below: dict[str, Amounts] = {}
        for owner in owners:
            used = (owner.used_units, owner.used_cpu_milli, owner.used_memory_mib)
            place = self._siblings[owner.project if owner.user else ""]
            place.weight[owner.user or owner.project] = owner.weight
            place.used[owner.user or owner.project] = used
            if owner.user:
                own = below.get(owner.project, (0, 0, 0))
                below[owner.project] = _sum(own, used)
        projects = self._siblings[""].used
        for project, used in below.items():
            # A project used at least what its users did.
            own = projects.get(project, (0, 0, 0))
            projects[project] = _most(own, used)

    def _count(self, asking: Collection[OwnerKey]) -> None:
        """Who takes part: whoever asks, or used a part of what the largest sibling used."""
        for project, user in asking:
            self._siblings[""].parts.add(project)
            if user:
                self._siblings[project].parts.add(user)
        for place in self._siblings.values():
            uses = {name: self._dominant(used) for name, used in place.used.items()}
            least = INACTIVE_PART * max(uses.values(), default=0.0)
            place.parts |= {name for name, use in uses.items() if use and use >= least}
            place.weights = sum(place.weight.get(name, 1) for name in place.parts)

    def _owner(self, key: OwnerKey) -> _Owner:
        if key not in self._known:
            self._known[key] = self._make(key)
        return self._known[key]

    def _make(self, key: OwnerKey) -> _Owner:
        project, user = key
        place, name = self._siblings[project if user else ""], user or project
        weight = place.weight.get(name, 1)
        weights = place.weights + (0 if name in place.parts else weight)
        part = weight / weights if weights else 1.0
        share = part * self._owner((project, "")).share if user else part
        used = list(place.used.get(name, (0, 0, 0)))
        return _Owner(part, share, used, self._dominant(used))

    def _dominant(self, used: Iterable[int]) -> float:
        return max(u * each for u, each in zip(used, self._per_second, strict=True))


def _parts(owner: _Owner, effective: float, exactly: float) -> FactorBreakdown:
    ratio = effective / (owner.share * exactly) if owner.share else MAX_DOUBLINGS + 1
    factor = 2.0 ** min(ratio - 1, MAX_DOUBLINGS)
    return FactorBreakdown(owner.share, owner.use, effective, factor)


def _sum(a: Amounts, b: Amounts) -> Amounts:
    return (a[0] + b[0], a[1] + b[1], a[2] + b[2])


def _most(a: Amounts, b: Amounts) -> Amounts:
    return (max(a[0], b[0]), max(a[1], b[1]), max(a[2], b[2]))
