"""Tessera's own placement in a replay: the engine of `scheduler.core.packing`, request by request.

Nothing is tuned to the run: the weights follow the observed departures, the tables the mix of
demand. The mix is that of the pod list (`list`, as for published policies) or a prior and the
arrivals so far (`learned`).
"""

import time
from collections import deque
from collections.abc import Iterator

import numpy as np

from scheduler.core.packing.engine import PackingEngine
from scheduler.core.packing.kinds import NodeRoom, RequestKind
from scheduler.core.packing.recent_demand import RecentDemand, prior_mix
from scheduler.core.packing.tables import ClusterExtent, hole_values_of_mix
from scheduler.core.packing.thousandths import ThousandthsGeometry
from scheduler.core.packing.weights import score_weights
from scheduler.replay.openb_data import Ints, TracePods
from scheduler.replay.placement_record import NOWHERE, PlacementDecisions

DEPARTURES_OVER = 1_000  # last starts that departures are compared with
WEIGH_EVERY = 250  # events
STEPS = 8  # weights change by eighths, so that scores are rarely computed anew


class EngineReplay:
    """One run: `node` and `gpus` of each request, written as events come."""

    def __init__(
        self,
        requests: Ints,
        pods: TracePods,
        nodes: tuple[NodeRoom, ...],
        extent: ClusterExtent,
        learned: bool,
    ) -> None:
        self._recent = RecentDemand(prior_mix(lambda thousandths: thousandths)) if learned else None
        mix = self._recent.mix() if self._recent else pods.mix()
        self.engine = PackingEngine(
            nodes, extent, ThousandthsGeometry(tuple(hole_values_of_mix(mix))), mix
        )
        self._kinds = pods.kinds
        self._numbers = [self.engine.kind_number(kind) for kind in pods.kinds]
        self._kind = [int(k) for k in pods.kind[requests]]
        self._moves: deque[bool] = deque()  # True a start, False a departure
        self._starts = 0
        self.node, self.gpus = [NOWHERE] * len(requests), [0] * len(requests)

    def run(self, events: Ints) -> None:
        for done, event in enumerate(events.tolist(), start=1):
            if event >= 0:
                self._arrives(event)
            else:
                self._departs(-event - 1)
            if done % WEIGH_EVERY == 0:
                self.engine.set_weights(score_weights(self._departing()))

    def _arrives(self, request: int) -> None:
        kind = self._kind[request]
        number = self._numbers[kind]
        choice = self.engine.best_choice(number)
        if choice is not None:
            self.engine.place(number, choice)
            self.node[request] = choice.node
            self.gpus[request] = sum(1 << gpu for gpu in choice.gpus)
            self._moved(True)
        if self._recent and self._recent.add(self._kinds[kind]):
            mix = self._recent.mix()
            self.engine.set_mix(mix, ThousandthsGeometry(tuple(hole_values_of_mix(mix))))

    def _departs(self, request: int) -> None:
        node = self.node[request]
        if node == NOWHERE:
            return
        kind, room = self._kinds[self._kind[request]], self.engine.node_room(node)
        self.engine.update(
            node,
            room.cpu_milli + kind.cpu_milli,
            room.memory_mib + kind.memory_mib,
            {gpu: _back(room.states[gpu], kind) for gpu in _numbered(self.gpus[request])},
        )
        self._moved(False)

    def _moved(self, start: bool) -> None:
        """Remember the starts and departures since the last DEPARTURES_OVER starts."""
        self._moves.append(start)
        self._starts += start
        while self._starts > DEPARTURES_OVER:
            self._starts -= self._moves.popleft()

    def _departing(self) -> float:
        departures = len(self._moves) - self._starts
        return round(STEPS * departures / max(1, self._starts)) / STEPS


def decide(
    events: Ints, requests: Ints, pods: TracePods, nodes: tuple[NodeRoom, ...],
    extent: ClusterExtent, learned: bool,
) -> PlacementDecisions:  # fmt: skip
    """`seconds` covers decisions and their bookkeeping, not reading files or the first tables."""
    run = EngineReplay(requests, pods, nodes, extent, learned)
    EngineReplay(requests, pods, nodes, extent, learned).run(
        events[:300]
    )  # compiles what is not yet
    started = time.perf_counter()
    run.run(events)
    seconds = time.perf_counter() - started
    return PlacementDecisions(np.array(run.node, np.int64), np.array(run.gpus, np.int64), seconds)


def _back(state: object, kind: RequestKind) -> int:
    return int(str(state)) + int(str(kind.shape))


def _numbered(bits: int) -> Iterator[int]:
    return (gpu for gpu in range(bits.bit_length()) if bits >> gpu & 1)
