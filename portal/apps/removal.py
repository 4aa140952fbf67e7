"""What of visits and tokens is removed once it opens nothing any more."""

from datetime import datetime, timedelta
from typing import Any

from django.contrib.sessions.models import Session
from django.db.models import Exists, OuterRef, Q, QuerySet

from portal.apps.models import AppToken, AppVisit
from portal.jobs.querysets import values_of
from scheduler.core.model.states import JOB_FINAL

# An expired token stays listed for so long, so that its owner sees why programs are refused.
EXPIRED_TOKEN_RETENTION = timedelta(days=30)
# Of each kind in one run; the next one follows in ten minutes.
BATCH = 500


def app_access_remove(*, now: datetime) -> int:
    """Remove what is over, a batch of each kind. How many rows."""
    expired = AppToken.objects.filter(expires_at__lt=now - EXPIRED_TOKEN_RETENTION)
    return _remove(over_visits(now)) + _remove(expired)


def over_visits(now: datetime) -> QuerySet[AppVisit]:
    """Visits of which nothing can come any more: the job or service or the browser's session has
    ended, or the ticket was not used in time."""
    ended = Q(job__status__in=values_of(JOB_FINAL)) | Q(service__ended_at__isnull=False)
    late = Q(cookie_digest=None, ticket_expires_at__lt=now)
    live = Session.objects.filter(session_key=OuterRef("session_key"), expire_date__gt=now)
    return AppVisit.objects.filter(ended | late | ~Exists(live))


def _remove(rows: QuerySet[Any, Any]) -> int:
    keys = list(rows.order_by("pk").values_list("pk", flat=True)[:BATCH])
    return rows.model._default_manager.filter(pk__in=keys).delete()[0] if keys else 0
