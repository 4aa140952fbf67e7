"""A geometry of GPUs shared by thousandths, as in traces: states and shapes are thousandths."""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

from scheduler.core.packing.holes import GRID, whole_gpu_only_values
from scheduler.core.packing.kinds import StateFacts, Transition

WHOLE = 1_000


@dataclass(frozen=True, slots=True)
class ThousandthsGeometry:
    """The state is what is idle, the shape what is requested, both in thousandths."""

    holes: Sequence[float] = tuple(whole_gpu_only_values())
    """Value of each hole, by hundredths of a GPU (see `hole_values`)."""

    def facts(self, state: Hashable) -> StateFacts:
        idle = _number(state)
        value = float(self.holes[idle * GRID // WHOLE])
        return StateFacts(value=value, idle=idle / WHOLE, started=0 < idle < WHOLE)

    def transition(self, state: Hashable, shape: Hashable) -> Transition | None:
        left = _number(state) - _number(shape)
        return Transition(left) if left >= 0 else None


def _number(value: Hashable) -> int:
    if not isinstance(value, int):
        raise TypeError(f"{value!r} is not a number of thousandths")
    return value
