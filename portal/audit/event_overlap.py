"""History for readers in batches, webhooks and notices: new events, and the latest ones again.

Events are numbered when they are written and seen when their transaction commits, which may be
later than those of higher numbers: a report waits for a lock while a pass places 500 jobs. So what
was written lately is read again, and is told once by the unique keys of its readers.
"""

from datetime import datetime, timedelta

from django.db.models import Q, QuerySet

from portal.audit.models import Event

# Longer than a transaction that writes events is open, and more than one pass writes.
COMMIT_DURATION = timedelta(seconds=60)
COMMIT_EVENTS = 2_000
# Read again in any case: an event may be dated by a node, and long ago.
OVERLAP = 200


def events_after(last: int, now: datetime, *, first: int) -> QuerySet[Event]:
    """Events after `last`, which was read, and those before it that may have been committed since;
    none up to `first`."""
    lately = Q(id__gt=last - COMMIT_EVENTS, at__gte=now - COMMIT_DURATION)
    return Event.objects.filter(lately | Q(id__gt=last - OVERLAP), id__gt=first)


def is_settled(last: int, now: datetime) -> bool:
    """Whether `last` is so old that nothing before it is committed any more."""
    return not Event.objects.filter(pk=last, at__gte=now - COMMIT_DURATION).exists()
