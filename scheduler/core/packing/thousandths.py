"""GPUs shared by thousandths: the state is the idle thousandths, the shape those asked for."""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

from scheduler.core.packing.holes import GRID, whole_or_nothing
from scheduler.core.packing.kinds import Facts, Step

WHOLE = 1_000


@dataclass(frozen=True, slots=True)
class Thousandths:
    """A geometry. `holes`: value of each hole, by hundredths of a GPU (see `hole_values`)."""

    holes: Sequence[float] = tuple(whole_or_nothing())

    def facts(self, state: Hashable) -> Facts:
        idle = _number(state)
        value = float(self.holes[idle * GRID // WHOLE])
        return Facts(value=value, idle=idle / WHOLE, started=0 < idle < WHOLE)

    def step(self, state: Hashable, shape: Hashable) -> Step | None:
        left = _number(state) - _number(shape)
        return Step(left) if left >= 0 else None


def _number(value: Hashable) -> int:
    if not isinstance(value, int):
        raise TypeError(f"{value!r} is no number of thousandths")
    return value
