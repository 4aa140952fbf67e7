"""While a replica is being prepared, its node fetches files: that it comes further is noted."""

from datetime import timedelta

from django.utils import timezone

from portal.jobs.models import Replica

# A fetch makes many calls; so often, one of them is written down.
NOTED_SECONDS = 60


def fetch_record(*, replica: Replica) -> None:
    """The fetch has come further, so its gang is not late (`scheduler/sweeper.py`)."""
    now, last = timezone.now(), replica.pull_moved_at
    if last is None or now - last >= timedelta(seconds=NOTED_SECONDS):
        Replica.objects.filter(pk=replica.pk).update(pull_moved_at=now)
