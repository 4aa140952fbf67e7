"""How far a replay is, told in its row; and from the row, whether anybody still wants to know."""

import time

from django.utils import timezone

from portal.what_if.models import WhatIf, WhatIfStatus

# So often, at most, a replay says how far it is.
STAMP_SECONDS = 2.0


class WhatIfCancelled(Exception):
    """The question was cancelled meanwhile."""


class ProgressRecorder:
    """Progress as percent in the row, not more often than people look. Raises NobodyAsks."""

    def __init__(self, pk: int) -> None:
        self._pk = pk
        self._last = time.monotonic()

    def __call__(self, done: int, of: int) -> None:
        now = time.monotonic()
        if now - self._last < STAMP_SECONDS:
            return
        self._last = now
        mine = WhatIf.objects.filter(pk=self._pk, status=WhatIfStatus.RUNNING)
        percent = 100 * done // max(1, of)
        if not mine.update(progress=percent, stamped_at=timezone.now()):
            raise WhatIfCancelled
