"""Deliver events to endpoints: collect new events as deliveries, and send those that are due.

Delivery is at least once: a message that was being sent when the worker died is sent again, with
the same event id. No network call is made inside a transaction.
"""

import json
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

from cryptography.fernet import InvalidToken
from django.conf import settings
from django.db.models import Q, QuerySet
from django.utils import timezone

from portal.accounts.models import Membership
from portal.accounts.selectors import is_project_admin
from portal.audit.event_overlap import events_after, is_settled
from portal.audit.models import Event
from portal.jobs.models import Job
from portal.webhooks.addresses import Network, Resolver, parse_networks, resolve_host
from portal.webhooks.http import SendResult, WebhookMessage, post_message
from portal.webhooks.models import Delivery, Endpoint
from portal.webhooks.secrets import unseal
from portal.webhooks.values import DeliveryStatus, retry_delay

EVENT_BATCH = 500
SEND_BATCH = 16
# Longer than any attempt takes. After that, another worker may send the message.
CLAIM_DURATION = timedelta(seconds=60)
RETENTION = timedelta(days=30)


def webhooks_deliver(look_up: Resolver = resolve_host) -> None:
    """One round: collect, send, and delete old deliveries."""
    for endpoint in Endpoint.objects.filter(off_reason="").select_related("project", "owner"):
        if _is_entitled(endpoint) and not endpoint.is_chat:
            deliveries_collect(endpoint)
    due_deliveries_send(parse_networks(settings.PLATFORM.webhook_networks), look_up)
    Delivery.objects.filter(created_at__lt=timezone.now() - RETENTION).delete()


def deliveries_collect(endpoint: Endpoint) -> None:
    """Create deliveries for new events."""
    now = timezone.now()
    rows = events_after(endpoint.seen_event, now, first=endpoint.first_event)
    rows = rows.filter(noun="job").order_by("id")
    new = list(rows.filter(id__gt=endpoint.seen_event).values_list("id", flat=True)[:EVENT_BATCH])
    if not new and is_settled(endpoint.seen_event, now):
        return
    last = new[-1] if new else endpoint.seen_event
    events = _visible_events(endpoint, rows.filter(id__lte=last))
    events = events.exclude(pk__in=endpoint.deliveries.filter(event__gt=0).values("event"))
    events = events.select_related("job__project", "job__owner")
    Delivery.objects.bulk_create(
        [
            Delivery(
                endpoint=endpoint,
                event=event.pk,
                kind=f"job.{event.new}",
                body=message_body(event, event.job),
                next_at=now,
            )
            for event in events
            if event.job
        ],
        ignore_conflicts=True,
    )
    Endpoint.objects.filter(pk=endpoint.pk).update(seen_event=last)


def message_body(event: Event, job: Job) -> str:
    """The JSON message about a job's change of status."""
    facts = {
        "id": event.pk,
        "type": f"job.{event.new}",
        "at": event.at.isoformat(),
        "job": {
            "id": job.label,
            "uid": str(job.uid),
            "name": job.name,
            "project": job.project.slug,
            "owner": job.owner.username,
        },
        "old": event.old,
        "new": event.new,
        "code": event.code,
        "sentence": event.sentence,
    }
    return json.dumps(facts, ensure_ascii=False)


def due_deliveries_send(
    allowed_networks: tuple[Network, ...], look_up: Resolver = resolve_host
) -> None:
    """Send the due deliveries concurrently, and record the outcomes."""
    now = timezone.now()
    due = Delivery.objects.filter(
        status=DeliveryStatus.WAITING, next_at__lte=now, endpoint__off_reason=""
    )
    rows = due.select_related("endpoint").order_by("next_at", "id")[:SEND_BATCH]
    claimed = [row for row in rows if _claim(row)]
    messages = [_message(row) for row in claimed]
    with ThreadPoolExecutor(max_workers=SEND_BATCH) as pool:
        results = list(
            pool.map(
                lambda m: post_message(m, allowed_networks, look_up) if m else NO_SECRET, messages
            )
        )
    for row, result in zip(claimed, results, strict=True):
        _record(row, result)


NO_SECRET = SendResult(None, "The server's key was changed: remove this webhook and add it again")


def _claim(row: Delivery) -> bool:
    """Claim a delivery; False if another worker was quicker."""
    unclaimed = Delivery.objects.filter(
        pk=row.pk, next_at=row.next_at, status=DeliveryStatus.WAITING
    )
    return unclaimed.update(next_at=timezone.now() + CLAIM_DURATION) == 1


def _message(row: Delivery) -> WebhookMessage | None:
    endpoint = row.endpoint
    try:
        if endpoint.is_chat:
            url, secret = unseal(endpoint.sealed_url), ""
        else:
            url, secret = endpoint.url, unseal(endpoint.sealed)
    except InvalidToken:
        return None
    return WebhookMessage(row.pk, row.event, url, secret, row.body.encode())


def _record(row: Delivery, result: SendResult) -> None:
    now, tries = timezone.now(), row.tries + 1
    delay = None if not result.problem else retry_delay(tries)
    if not result.problem:
        status = DeliveryStatus.DELIVERED
    else:
        status = DeliveryStatus.FAILED if delay is None else DeliveryStatus.WAITING
    Delivery.objects.filter(pk=row.pk).update(
        status=status,
        tries=tries,
        tried_at=now,
        next_at=now + delay if delay else None,
        answer=result.status,
        problem=result.problem,
    )


def _visible_events(endpoint: Endpoint, rows: QuerySet[Event]) -> QuerySet[Event]:
    rows = rows.exclude(new="")
    if endpoint.kinds:
        rows = rows.filter(new__in=endpoint.kinds)
    if endpoint.project_id is not None:
        return rows.filter(job__project_id=endpoint.project_id)
    own_projects = Membership.objects.filter(user_id=endpoint.owner_id).values("project_id")
    return rows.filter(Q(job__owner_id=endpoint.owner_id) & Q(job__project_id__in=own_projects))


def _is_entitled(endpoint: Endpoint) -> bool:
    """False, and the endpoint is switched off, if its owner lost the rights to it."""
    if reason := _off_reason(endpoint):
        Endpoint.objects.filter(pk=endpoint.pk).update(off_reason=reason)
    return not reason


def _off_reason(endpoint: Endpoint) -> str:
    """Why the endpoint may not receive events; empty if it may. Rights may have been lost."""
    if not endpoint.owner.is_active:
        return "Its owner is no longer active"
    project = endpoint.project
    if project is not None and not is_project_admin(endpoint.owner, project.pk):
        return f"{endpoint.owner.username} is no longer an admin of {project.slug}"
    return ""
