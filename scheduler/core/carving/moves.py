"""Which restartable running slices to move so that a request finds room: least total fall of V.

Nothing is moved by itself: Policy.moves says how many at most, and 0 is the default.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from agents.contract.geometry import Placement
from scheduler.core.carving.choose import cheapest, room_by_move, room_by_moves
from scheduler.core.carving.shape import Ints
from scheduler.core.carving.windows import Values


@dataclass(frozen=True, slots=True)
class Running:
    """What runs on one GPU: `held`, and what of it may be restarted, with who holds it."""

    gpu: str
    held: tuple[Placement, ...]
    restartable: Mapping[Placement, str]


@dataclass(frozen=True, slots=True)
class Move:
    """`who` leaves `old` on `gpu` and starts again at `new` on `to_gpu`."""

    who: str
    gpu: str
    old: Placement
    to_gpu: str
    new: Placement


@dataclass(frozen=True, slots=True)
class Room:
    """Where the request goes once those that move have left. `fall`: of V, in its own units."""

    gpu: str
    place: Placement
    moves: tuple[Move, ...]
    fall: float


def room_by_moving(
    table: Values, running: Sequence[Running], profile: str, most: int
) -> Room | None:
    """Room for one of `profile` by at most `most` moves, fewest first, then the least fall; None
    where that many do not help. GPUs with a layout that no table knows are left alone."""
    shape = table.shape
    known = [r for r in running if shape.number(r.held) >= 0]
    if not known or most < 1 or profile not in shape.names:
        return None
    lay = np.array([shape.number(r.held) for r in known], dtype=np.int32)
    movable = np.zeros((len(known), len(shape.spots)), dtype=np.int32)
    for row, seen in zip(movable, known, strict=True):
        row[[shape.spot(place) for place in seen.restartable]] = 1
    kind, starts = shape.names.index(profile), shape.starts
    arrays = (shape.after, shape.before, table.falls, starts, shape.profile_of, kind)
    gpu, old, new, fall = room_by_move(lay, movable, *arrays)
    rows = np.array([[gpu, old, -1, -1], [gpu, new, -1, -1]], dtype=np.int32)
    if gpu >= 0:
        lay[gpu] = shape.after[shape.before[lay[gpu], old], new]
        moved = shape.profile_of[old]
        edges = (starts[moved], starts[moved + 1])
        rows[0, 2:] = cheapest(lay, np.zeros_like(movable), table.falls, *edges, 0.0)[:2]
    else:
        rows, fall = room_by_moves(lay, movable, *arrays, most)
    if len(rows) == 0:
        return None
    moves = tuple(_move(table, known, row) for row in rows[:-1])
    return Room(known[rows[-1, 0]].gpu, shape.spots[rows[-1, 1]], moves, float(fall))


def _move(table: Values, known: list[Running], row: Ints) -> Move:
    gpu, old, to_gpu, new = (int(number) for number in row)
    here, place = known[gpu], table.shape.spots[old]
    return Move(here.restartable[place], here.gpu, place, known[to_gpu].gpu, table.shape.spots[new])
