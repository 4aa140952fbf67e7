"""F, the idle GPU capacity that typical requests cannot use (FGD, USENIX ATC 2023).

For each typical kind, F counts all idle capacity of a node where the kind cannot run at all: too
few GPUs that it fits, too little CPU, the wrong model, or no GPU requested. Elsewhere it counts the
idle capacity of the GPUs that the kind does not fit. F is the mean over the kinds, weighted by
frequency.
"""

from collections.abc import Hashable, Sequence

from scheduler.core.packing.kinds import Geometry, KindMix, RequestKind

COVER = 0.95  # the share of all requests that the typical kinds cover
TypicalKinds = tuple[tuple[RequestKind, float], ...]


def typical_kinds(mix: KindMix, cover: float = COVER) -> TypicalKinds:
    """The commonest kinds without their memory, and their shares, which sum to 1."""
    counts: dict[RequestKind, float] = {}
    for kind, count in mix.items():
        bare = RequestKind(kind.cpu_milli, 0, kind.gpus, kind.amount, kind.shape, kind.models)
        counts[bare] = counts.get(bare, 0.0) + count
    total, taken = sum(counts.values()), 0.0
    chosen: list[tuple[RequestKind, float]] = []
    for kind, count in sorted(counts.items(), key=lambda item: -item[1]):
        if taken >= cover * total - 1e-9:
            break
        chosen.append((kind, count))
        taken += count
    return tuple((kind, count / taken) for kind, count in chosen)


def fragmentation(
    states: Sequence[Hashable], cpu_milli: int, model: int, kinds: TypicalKinds, geometry: Geometry
) -> float:
    """F of one node, in GPUs. The compiled version in `kernels` must agree."""
    idle = [geometry.facts(state).idle for state in states]
    amount = 0.0
    for kind, share in kinds:
        fits = [geometry.transition(state, kind.shape) is not None for state in states if kind.gpus]
        runs = 0 < kind.gpus <= sum(fits) and kind.cpu_milli <= cpu_milli and kind.allows(model)
        unused = [i for i, fit in zip(idle, fits, strict=True) if not fit] if runs else idle
        amount += share * sum(unused)
    return amount
