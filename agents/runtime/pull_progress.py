"""Adds up the progress that a Docker Engine streams during a pull, by layer. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from agents.contract.pulls import MAX_LAYERS, ObservedPull

# The statuses of a layer, in the engine's words.
QUEUED, DOWNLOADING, EXTRACTING = "Waiting", "Downloading", "Extracting"
PRESENT = "Already exists"
HAS_BYTES = frozenset({"Verifying Checksum", "Download complete", EXTRACTING, "Pull complete"})
DONE = frozenset({PRESENT, "Pull complete"})
# The first status of every layer that is not there.
LISTED = "Pulling fs layer"
STATUSES = HAS_BYTES | DONE | {LISTED, QUEUED, DOWNLOADING, "Retrying"}


@dataclass(slots=True)
class _Layer:
    status: str = LISTED
    done: int = 0
    total: int | None = None


@dataclass(slots=True)
class PullTally:
    """The layers of one pull."""

    layers: dict[str, _Layer] = field(default_factory=dict)

    def add(self, event: Mapping[str, Any]) -> None:
        """One object of the stream; those that are about no layer change nothing."""
        number, status = event.get("id"), str(event.get("status", ""))
        # "Retrying in 5 seconds": the number counts down.
        status = "Retrying" if status.startswith("Retrying") else status
        if not isinstance(number, str) or status not in STATUSES:
            return
        if number not in self.layers and len(self.layers) >= MAX_LAYERS:
            return
        layer = self.layers.setdefault(number, _Layer())
        layer.status = status
        detail = event.get("progressDetail") or {}
        current, total = detail.get("current"), detail.get("total")
        # Small layers go from listed to complete without a size.
        if isinstance(total, int) and total > 0:
            layer.total = total
        if status == DOWNLOADING and isinstance(current, int):
            layer.done = max(0, current)
        elif status == PRESENT:
            layer.done = layer.total = 0
        elif status in HAS_BYTES:
            layer.total = layer.total or layer.done
            layer.done = layer.total

    def progress(self) -> ObservedPull:
        layers = self.layers.values()
        totals = [layer.total for layer in layers if layer.total is not None]
        is_known = bool(layers) and len(totals) == len(layers)
        return ObservedPull(
            layers_done=sum(layer.status in DONE for layer in layers),
            layers_total=len(layers),
            bytes_done=sum(layer.done for layer in layers),
            bytes_total=sum(totals) if is_known else None,
        )

    def is_queued(self) -> bool:
        """Whether everything that is left waits for downloads of other pulls."""
        left = [layer.status for layer in self.layers.values() if layer.status not in DONE]
        return bool(left) and all(status == QUEUED for status in left)
