"""The planner's policy: what it may do and what it prefers. The defaults are the product's."""

from dataclasses import dataclass
from enum import StrEnum

DAY = 86_400


class OrderMode(StrEnum):
    """Which job is next within a priority band. Only `fair` considers owners."""

    FAIR = "fair"
    """Least expected work first, weighted by the owner's recent use and by the job's wait."""
    FIFO = "fifo"
    """First come, first served."""
    SHORTEST = "shortest"
    """Least remaining time by the time limit."""
    SMALLEST = "smallest"
    """Least remaining time x GPUs."""


class BackfillMode(StrEnum):
    """Which jobs may start behind a blocked job."""

    NONE = "none"
    SKIP = "skip"
    """Every job that fits."""
    EASY = "easy"
    """Jobs that do not delay the first `Policy.reservations` blocked ones."""
    CONSERVATIVE = "conservative"
    """Jobs that delay no job ahead of them."""


class PreemptionMode(StrEnum):
    """Which preemptible running jobs may be stopped for a waiting job."""

    OFF = "off"
    PRIORITY = "priority"
    """Jobs of lower priority bands, and jobs on borrowed quota that its owner reclaims."""
    ORDER = "order"
    """Also jobs that come later in the order, by more than the hysteresis."""


class QuotaPreemption(StrEnum):
    """Whose preemptible running jobs may be stopped for a job of a higher priority that finds the
    quota, or the cap, of both full."""

    OFF = "off"
    OWNER = "owner"
    """Its owner's own jobs in the project."""
    PROJECT = "project"
    """Also those of the other users of the project."""


@dataclass(frozen=True, slots=True)
class Policy:
    """Options of the planner. Field names are option names in REST and columns in the database."""

    merge: bool = True
    """Delete idle slices to make room."""
    order: OrderMode = OrderMode.FAIR
    backfill: BackfillMode = BackfillMode.EASY
    preemption: PreemptionMode = PreemptionMode.PRIORITY
    reservations: int = 1
    """Blocked jobs that get a reservation under `easy` backfill."""
    hysteresis: float = 1.5
    """A running job's order key is divided by this."""
    protection_seconds: int = 1_800
    """A running job is not stopped this early; doubled for each earlier preemption."""
    patience_seconds: int = 7 * DAY
    """After this wait a job counts as half as large, after twice this wait as a third."""
    bypass_limit: int = 10_000
    """A job bypassed in this many passes goes first."""
    moves: int = 0
    """Restartable jobs that one placement may move."""
    half_life_seconds: int = 7 * DAY
    """Half-life of an owner's recent use."""
    warm: bool = False
    """Carve slices that the mix of demand will want, and delete idle slices in their way, before a
    job requests them."""
    quota_preemption: QuotaPreemption = QuotaPreemption.OWNER
    """Applies unless `preemption` is off."""
