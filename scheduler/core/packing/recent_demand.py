"""The mix of recent requests, and the prior that is assumed before any has come."""

from collections import Counter, deque
from collections.abc import Hashable
from typing import Protocol

from scheduler.core.packing.kinds import RequestKind

WINDOW = 4_096  # requests counted
PRIOR_WEIGHT = 256.0  # requests that the prior counts for at first; it fades as requests come
LEARN_AT = (100, 200, 400, 800)  # counted requests; later every LEARN_EVERY
LEARN_EVERY = 1_600

# (GPUs, thousandths of each, CPU in millicores, memory in MiB, part of requests): a quarter to four
# fifths of a GPU with much or little CPU, whole GPUs with 8 to 16 CPUs, few gangs, CPU-only work.
# These are rounded sizes of our own: a sensible start, not a copy of any trace.
PRIOR: tuple[tuple[int, int, int, int, float], ...] = (
    (1, 250, 4_000, 24_576, 6.0),
    (1, 330, 4_000, 16_384, 4.0),
    (1, 500, 8_000, 32_768, 9.0),
    (1, 500, 12_000, 49_152, 6.0),
    (1, 660, 12_000, 49_152, 4.0),
    (1, 800, 4_000, 8_192, 14.0),
    (1, 1_000, 4_000, 8_192, 10.0),
    (1, 1_000, 8_000, 32_768, 8.0),
    (1, 1_000, 12_000, 49_152, 20.0),
    (1, 1_000, 16_000, 65_536, 8.0),
    (8, 1_000, 64_000, 262_144, 1.0),
    (0, 0, 16_000, 57_344, 10.0),
)


class ShapeOfShare(Protocol):
    def __call__(self, thousandths: int) -> Hashable:
        """The geometry's shape of a share of a GPU; 1,000 is a whole one."""
        ...


def prior_mix(shape_of: ShapeOfShare) -> dict[RequestKind, float]:
    """The mix assumed for a cluster without history."""
    return {
        RequestKind(cpu, memory, gpus, gpus * each / 1_000, shape_of(each) if gpus else None): part
        for gpus, each, cpu, memory, part in PRIOR
    }


class RecentDemand:
    """The last WINDOW requests, on top of a prior that fades as they come."""

    def __init__(self, prior: dict[RequestKind, float]) -> None:
        self.request_count = 0
        self._prior = prior
        self._last: deque[RequestKind] = deque()
        self._counts: Counter[RequestKind] = Counter()

    def add(self, kind: RequestKind) -> bool:
        """Count a request. True when it is time to learn from the mix again."""
        self.request_count += 1
        self._last.append(kind)
        self._counts[kind] += 1
        if len(self._last) > WINDOW:
            oldest = self._last.popleft()
            self._counts[oldest] -= 1
            if not self._counts[oldest]:
                del self._counts[oldest]
        return self.request_count in LEARN_AT or self.request_count % LEARN_EVERY == 0

    def mix(self) -> dict[RequestKind, float]:
        mix = {kind: float(count) for kind, count in self._counts.items()}
        total = sum(self._prior.values())
        weight = (
            max(0.0, 1.0 - self.request_count / WINDOW) * PRIOR_WEIGHT / total if total else 0.0
        )
        for kind, part in self._prior.items():
            if weight > 0.0:
                mix[kind] = mix.get(kind, 0.0) + part * weight
        return mix
