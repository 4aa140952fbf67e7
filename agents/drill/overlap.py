"""Refreshes that overlap partition changes, as a loop that does not wait for its carver."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from unittest.mock import patch

import pynvml

from agents.drill.kill_points import KillSwitch
from agents.hardware import Hardware

# A refresh takes milliseconds; one that waits for the change never ends, since the change waits for
# it here.
REFRESH_SECONDS = 30.0


class OverlappingRefresh:
    """While the driver makes or deletes an instance or changes a mode, another thread refreshes.

    `hardware` returns that of the agent that runs now, or None. `collisions` has a sentence for
    each refresh that failed, waited, or took a GPU out of service."""

    def __init__(self, hardware: Callable[[], Hardware | None], switch: KillSwitch) -> None:
        self.collisions: list[str] = []
        # How many changes are overlapped from now on; None for all of them.
        self.remaining: int | None = None
        self.refreshes = 0
        self._hardware = hardware
        self._switch = switch

    @contextmanager
    def installed(self) -> Iterator[None]:
        """The simulated driver pauses by this in the middle of a change."""
        with patch.object(pynvml.nvmlLib, "sleep", self._during_change):
            yield

    def _during_change(self, _: float) -> None:
        hardware = self._hardware()
        if hardware is None or self.remaining == 0 or self._switch.is_paused():
            return
        if self.remaining is not None:
            self.remaining -= 1
        self.refreshes += 1
        thread = threading.Thread(target=self._refresh, args=(hardware,), daemon=True)
        thread.start()
        thread.join(REFRESH_SECONDS)
        if thread.is_alive():
            self.collisions.append("a refresh waits for a partition change")

    def _refresh(self, hardware: Hardware) -> None:
        with self._switch.paused():
            try:
                hardware.refresh()
            except Exception as error:
                self.collisions.append(f"a refresh beside a partition change failed: {error}")
        self.collisions += [
            f"beside a partition change GPU {gpu.index} was unhealthy: {gpu.health_reason}"
            for gpu in hardware.gpus
            if not gpu.healthy
        ]
