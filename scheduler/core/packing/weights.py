"""The weights of a score, by how fast jobs leave the cluster.

While a cluster only fills, all that counts is what a placement leaves usable. Once jobs leave as
fast as they come, low fragmentation and close packing count more. Both ends were measured on openb
(docs/scheduling-placement.md).
"""

from dataclasses import dataclass

CPU_SCALE = 128_000.0  # millicores of openb's largest nodes
GPU_SCALE = 8.0
STEADY_FROM = 0.8


@dataclass(frozen=True, slots=True)
class ScoreWeights:
    """Weights in GPUs of value."""

    fit: float
    """Close packing: multiplied by the share of CPU and GPU left on the node."""
    started: float
    """A share goes to a GPU that is already shared."""
    fragmentation: float
    """Of the change of F."""
    scarcity: float = 0.3
    """Of a GPU of a model that others need."""
    cpu_scale: float = CPU_SCALE
    gpu_scale: float = GPU_SCALE


FILLING = ScoreWeights(fit=0.05, started=0.05, fragmentation=0.0)
STEADY = ScoreWeights(fit=1.0, started=0.0, fragmentation=6.0)


def score_weights(departures_per_start: float) -> ScoreWeights:
    """Weights between FILLING and STEADY; from STEADY_FROM departures per start on, STEADY."""
    share = min(max(departures_per_start / STEADY_FROM, 0.0), 1.0)

    def between(start: float, end: float) -> float:
        return start + share * (end - start)

    return ScoreWeights(
        fit=between(FILLING.fit, STEADY.fit),
        started=between(FILLING.started, STEADY.started),
        fragmentation=between(FILLING.fragmentation, STEADY.fragmentation),
    )
