"""Attempts whose site does not answer. Their jobs keep their states, and their history says so."""

from collections.abc import Mapping
from datetime import datetime

from django.db import transaction
from django.db.models import Q

from agents.contract.message import Message
from portal.audit.codes import EventCode
from portal.audit.transitions import event_record
from portal.jobs.models import Attempt
from portal.live.bell import ring


def silence_note(*, site: str, silent: Mapping[int, str], at: datetime) -> None:
    """Note which open attempts of a site do not answer, and which answer again.

    `silent`: by attempt, the name of the site or node that is silent.
    """
    with transaction.atomic():
        changed = Q(pk__in=silent, silent_since=None) | ~Q(pk__in=silent) & Q(
            silent_since__isnull=False
        )
        for attempt in Attempt.objects.open().filter(changed, site=site).select_related("job"):
            _note(attempt, silent.get(attempt.pk, ""), at)


def _note(attempt: Attempt, place: str, at: datetime) -> None:
    since = at if place else None
    same = Attempt.objects.open().filter(pk=attempt.pk, silent_since=attempt.silent_since)
    begun = attempt.silent_since
    absent = attempt.absent_seconds + (int((at - begun).total_seconds()) if begun else 0)
    if not same.update(silent_since=since, absent_seconds=max(attempt.absent_seconds, absent)):
        # It has ended, or another worker has noted the same.
        return
    if place:
        message = Message("No contact with %(place)s. The job stays as it is", place=place)
        event_record(attempt.job, EventCode.SITE_SILENT, message)
    else:
        event_record(attempt.job, EventCode.SITE_ANSWERS, Message("Its site answers again"))
    ring(f"job:{attempt.job_id}")
