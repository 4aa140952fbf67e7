"""`python -m tests.benchmarks.layouts`: what a question to the table of layouts costs.

Prints one JSON object: nanoseconds a query, median of LAYOUTS_ROUNDS (7) rounds over all layouts of
an H200 in a fixed random order, beside a dict look-up of the same run and the direct computation
that the table replaces. `first` is a question never asked before, `again` the same one later.
"""

from __future__ import annotations

import json
import os
import platform
import random
import statistics
import sys
import time
from collections.abc import Callable, Iterable
from typing import Any

from agents.contract.boards import known_boards
from agents.contract.geometry import Placement
from agents.contract.layouts import LayoutTable, layout_table
from tests.support.slow_geometry import fits_together, room_left

BOARD = known_boards()["H200-141GB"]


def main() -> int:
    rounds = int(os.environ.get("LAYOUTS_ROUNDS", "7"))
    started = time.perf_counter_ns()
    table = LayoutTable(BOARD)
    built = time.perf_counter_ns() - started
    asked = random.Random(1).sample(list(table), len(table))
    result: dict[str, Any] = {
        "python": platform.python_version(),
        "board": BOARD.key,
        "layouts": len(table),
        "build_ms": round(built / 1e6, 1),
        "ns": {name: timed(query, asked, rounds) for name, query in queries(asked).items()},
        "make_room_first_ns": first_questions(asked),
    }
    print(json.dumps(result))
    return 0


def queries(asked: list[tuple[Placement, ...]]) -> dict[str, Callable[[Any], object]]:
    table, numbers = layout_table(BOARD), {layout: i for i, layout in enumerate(asked)}
    addable = {layout: table.free_beside(layout).plain[:1] for layout in asked}
    return {
        "dict_look_up": numbers.get,
        "beside": lambda layout: layout_table(BOARD).free_beside(layout),
        "destroys": lambda layout: [table.larger_lost(layout, p) for p in addable[layout]],
        "make_room_again": lambda layout: table.make_room(layout, "3g.71gb", in_use=layout[:1]),
        "room_left_computed": lambda layout: room_left(BOARD, layout),
        "fits_together_computed": lambda layout: list(fits_together(BOARD, layout)),
    }


def timed(query: Callable[[Any], object], asked: Iterable[Any], rounds: int) -> int:
    """Nanoseconds a query, the loop's own cost among them: median of the rounds."""
    asked, taken = list(asked), []
    for _ in range(rounds):
        started = time.perf_counter_ns()
        for layout in asked:
            query(layout)
        taken.append((time.perf_counter_ns() - started) / len(asked))
    return round(statistics.median(taken))


def first_questions(asked: Iterable[tuple[Placement, ...]]) -> dict[str, dict[str, int]]:
    """Nanoseconds of make_room on a table that was never asked, by profile."""
    result = {}
    for profile in BOARD.profiles:
        table, taken = LayoutTable(BOARD), []
        for layout in asked:
            started = time.perf_counter_ns()
            table.make_room(layout, profile.name)
            taken.append(time.perf_counter_ns() - started)
        taken.sort()
        result[profile.name] = {
            "median": taken[len(taken) // 2],
            "p99": taken[len(taken) * 99 // 100],
            "worst": taken[-1],
        }
    return result


if __name__ == "__main__":
    sys.exit(main())
