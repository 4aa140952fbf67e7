"""GPUs shared by thousandths: the state is the idle thousandths, the shape those asked for."""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

from scheduler.core.packing.holes import GRID, whole_gpu_only_values
from scheduler.core.packing.kinds import StateFacts, Transition

WHOLE = 1_000


@dataclass(frozen=True, slots=True)
class ThousandthsGeometry:
    """A geometry. `holes`: value of each hole, by hundredths of a GPU (see `hole_values`)."""

    holes: Sequence[float] = tuple(whole_gpu_only_values())

    def facts(self, state: Hashable) -> StateFacts:
        idle = _number(state)
        value = float(self.holes[idle * GRID // WHOLE])
        return StateFacts(value=value, idle=idle / WHOLE, started=0 < idle < WHOLE)

    def transition(self, state: Hashable, shape: Hashable) -> Transition | None:
        left = _number(state) - _number(shape)
        return Transition(left) if left >= 0 else None


def _number(value: Hashable) -> int:
    if not isinstance(value, int):
        raise TypeError(f"{value!r} is no number of thousandths")
    return value
