"""Which earlier runs are evidence for a job: recent ones of its user, similar in name and size."""

import re
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

_HASH = re.compile(r"(?<![a-z])(?=[0-9a-f]*[0-9])[0-9a-f]{6,}(?![a-z])")
_NUMBER = re.compile(r"[0-9]+")
_GAP = re.compile(r"[^a-z]+")


@dataclass(frozen=True, slots=True)
class Similarity:
    """How much another job counts towards a job's own hazard: the weight of the closest tier times
    exp(-distance / decay), nothing beyond `reach`.

    Distance is counted in submissions among the jobs of that tier. On a trace without users and
    names all jobs have one user and name, so the first tier is the neighbours in order of
    submission within one GPU count; that is what docs/research/start-estimates.md measures.
    """

    same_name: float = 1.0
    """Same user, normalised name and GPU count."""
    same_size: float = 0.5
    """Same user and GPU count."""
    same_user: float = 0.25
    decay: float = 5.0
    reach: int = 15

    def weights(self) -> NDArray[np.float64]:
        """Weights by tier (row) and distance (column); column 0 is unused."""
        fade = np.exp(-np.arange(self.reach + 1) / self.decay)
        tiers = np.array([self.same_name, self.same_size, self.same_user])
        return np.asarray(tiers[:, None] * fade[None, :], dtype=np.float64)


@lru_cache(maxsize=4_096)
def normalised_name(name: str) -> str:
    """A name without numbers and hashes, so that the runs of a sweep have one name.

    `normalised("sweep-lr0.001_seed7-3fa9c2d1") == "sweep-lr-seed"`
    """
    plain = _HASH.sub(" ", name.lower())
    return _GAP.sub("-", _NUMBER.sub(" ", plain)).strip("-")


def size_class(gpus: float) -> int:
    """Whole GPUs of a job; 0 for less than one, such as slices and shares."""
    return int(gpus + 1e-9)
