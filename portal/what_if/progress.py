"""Writes the progress of a simulation to its row, and notices there that it was cancelled.

Those that wait for it are stamped as well: they are not interrupted, however long it takes.
"""

import time

from django.utils import timezone

from portal.what_if.models import LEASE, WhatIf, WhatIfStatus

# Progress is written at most this often.
UPDATE_SECONDS = 2.0


class WhatIfCancelled(Exception):
    """The what-if was cancelled meanwhile."""


class ProgressRecorder:
    """Callback that writes progress in percent. Raises WhatIfCancelled."""

    def __init__(self, pk: int) -> None:
        self._pk = pk
        self._last = time.monotonic()

    def __call__(self, done: int, of: int) -> None:
        now = time.monotonic()
        if now - self._last < UPDATE_SECONDS:
            return
        self._last = now
        mine = WhatIf.objects.filter(pk=self._pk, status=WhatIfStatus.RUNNING)
        percent, stamp = 100 * done // max(1, of), timezone.now()
        if not mine.update(progress=percent, stamped_at=stamp):
            raise WhatIfCancelled
        waiting = WhatIf.objects.filter(status=WhatIfStatus.REQUESTED)
        waiting.filter(stamped_at__gte=stamp - LEASE).update(stamped_at=stamp)
