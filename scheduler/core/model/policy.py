"""What the planner may do and prefers, as values. The defaults are the product's defaults."""

from dataclasses import dataclass
from enum import StrEnum

DAY = 86_400


class OrderMode(StrEnum):
    """Who is next inside a priority band.

    `fair`: least expected work first, weighed by how much its owner used lately and by its wait.
    The others ignore owners: `fifo` is first come; `shortest` is least remaining time by its limit;
    `smallest` is least remaining time x GPUs.
    """

    FAIR = "fair"
    FIFO = "fifo"
    SHORTEST = "shortest"
    SMALLEST = "smallest"


class BackfillMode(StrEnum):
    """What may start behind a job that is blocked.

    `none`: nothing. `skip`: whatever fits. `easy`: what does not delay the first blocked ones
    (Policy.reservations of them). `conservative`: what delays nobody ahead of it.
    """

    NONE = "none"
    SKIP = "skip"
    EASY = "easy"
    CONSERVATIVE = "conservative"


class PreemptionMode(StrEnum):
    """Which running work may be stopped for who waits; only jobs that say they are preemptible.

    `off`: none. `priority`: that of lower bands, and what borrows quota that its owner wants back.
    `order`: also that whose turn is later in the order, by more than the hysteresis.
    """

    OFF = "off"
    PRIORITY = "priority"
    ORDER = "order"


@dataclass(frozen=True, slots=True)
class Policy:
    """Times in seconds.

    `hysteresis`: a running job's key is divided by this. `protection_seconds`: it is not stopped in
    its first so many seconds, doubled for each time that it was stopped before. `patience_seconds`:
    a job that waits this long counts as half as large, after twice that as a third.
    `bypass_limit`: a job that was overtaken in so many passes goes first. `moves`: how many
    restartable jobs one placement may move. `half_life_seconds`: of what an owner used. `warm`:
    slices that the mix will want are made, and idle ones in their way deleted, before anybody asks.
    """

    merge: bool = True
    order: OrderMode = OrderMode.FAIR
    backfill: BackfillMode = BackfillMode.EASY
    preemption: PreemptionMode = PreemptionMode.PRIORITY
    reservations: int = 1
    hysteresis: float = 1.5
    protection_seconds: int = 1_800
    patience_seconds: int = 7 * DAY
    bypass_limit: int = 10_000
    moves: int = 0
    half_life_seconds: int = 7 * DAY
    warm: bool = False
