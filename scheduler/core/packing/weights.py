"""What counts how much in a score, by whether work leaves the cluster.

While a cluster only fills, what a placement leaves usable is all that counts; once work leaves as
fast as it comes, low fragmentation and close packing count more. Both ends are measured on openb:
docs/scheduling-placement.md.
"""

from dataclasses import dataclass

CPU_SCALE = 128_000.0  # millicores of openb's largest nodes
GPU_SCALE = 8.0
STEADY_FROM = 0.8


@dataclass(frozen=True, slots=True)
class ScoreWeights:
    """In GPUs of value. `fit`: close packing, times the share of CPU and GPU left on the node.
    `started`: a share goes to a GPU that is shared already. `fragmentation`: of F's change.
    `scarcity`: a GPU of a model that others need."""

    fit: float
    started: float
    fragmentation: float
    scarcity: float = 0.3
    cpu_scale: float = CPU_SCALE
    gpu_scale: float = GPU_SCALE


FILLING = ScoreWeights(fit=0.05, started=0.05, fragmentation=0.0)
STEADY = ScoreWeights(fit=1.0, started=0.0, fragmentation=6.0)


def score_weights(departures_per_start: float) -> ScoreWeights:
    """`departing`: departures per start lately; from STEADY_FROM on the state is steady."""
    share = min(max(departures_per_start / STEADY_FROM, 0.0), 1.0)

    def between(start: float, end: float) -> float:
        return start + share * (end - start)

    return ScoreWeights(
        fit=between(FILLING.fit, STEADY.fit),
        started=between(FILLING.started, STEADY.started),
        fragmentation=between(FILLING.fragmentation, STEADY.fragmentation),
    )
