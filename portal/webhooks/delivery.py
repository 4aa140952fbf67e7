"""What the worker does every few seconds: find events for endpoints, and send what is due.

At least once: a message that was sent when the worker died is sent again, with the same event id.
No network call is made inside a transaction.
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
from portal.audit.models import Event
from portal.jobs.models import Job
from portal.webhooks.addresses import Network, Resolver, parse_networks, resolve_host
from portal.webhooks.http import SendResult, WebhookMessage, post_message
from portal.webhooks.models import Delivery, Endpoint
from portal.webhooks.secrets import unseal
from portal.webhooks.values import DeliveryStatus, retry_delay

EVENT_BATCH = 500
SEND_BATCH = 16
# Longer than any send takes: who finds a message whose time has come sends it.
CLAIM_DURATION = timedelta(seconds=60)
RETENTION = timedelta(days=30)
# Two transactions may commit in another order than their events were numbered in.
EVENT_OVERLAP = 200


def webhooks_deliver(look_up: Resolver = resolve_host) -> None:
    """One round."""
    for endpoint in Endpoint.objects.filter(off_because="").select_related("project", "owner"):
        deliveries_collect(endpoint)
    due_deliveries_send(parse_networks(settings.PLATFORM.webhook_networks), look_up)
    Delivery.objects.filter(created_at__lt=timezone.now() - RETENTION).delete()


def deliveries_collect(endpoint: Endpoint) -> None:
    """Write down what the endpoint is to be told of what has happened since."""
    if because := _off_because(endpoint):
        Endpoint.objects.filter(pk=endpoint.pk).update(off_because=because)
        return
    start = max(endpoint.first_event, endpoint.seen_event - EVENT_OVERLAP)
    rows = Event.objects.filter(noun="job", id__gt=start).order_by("id")
    new = list(rows.filter(id__gt=endpoint.seen_event).values_list("id", flat=True)[:EVENT_BATCH])
    if not new:
        return
    told = _mine(endpoint, rows.filter(id__lte=new[-1])).select_related(
        "job__project", "job__owner"
    )
    Delivery.objects.bulk_create(
        [
            Delivery(
                endpoint=endpoint,
                event=event.pk,
                kind=f"job.{event.new}",
                body=message_body(event, event.job),
                next_at=timezone.now(),
            )
            for event in told
            if event.job
        ],
        ignore_conflicts=True,
    )
    Endpoint.objects.filter(pk=endpoint.pk).update(seen_event=new[-1])


def message_body(event: Event, job: Job) -> str:
    """What is told of a job's change of status."""
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
    """Send what is due, several at a time, and write down what came of it."""
    now = timezone.now()
    due = Delivery.objects.filter(
        status=DeliveryStatus.WAITING, next_at__lte=now, endpoint__off_because=""
    )
    rows = due.select_related("endpoint").order_by("next_at", "id")[:SEND_BATCH]
    mine = [row for row in rows if _take(row)]
    messages = [_message(row) for row in mine]
    with ThreadPoolExecutor(max_workers=SEND_BATCH) as pool:
        sent = list(
            pool.map(
                lambda m: post_message(m, allowed_networks, look_up) if m else NO_SECRET, messages
            )
        )
    for row, result in zip(mine, sent, strict=True):
        _note(row, result)


NO_SECRET = SendResult(None, "The server's key was changed: remove this webhook and add it again")


def _take(row: Delivery) -> bool:
    """Guarded by what was read: another worker may have been quicker."""
    taken = Delivery.objects.filter(pk=row.pk, next_at=row.next_at, status=DeliveryStatus.WAITING)
    return taken.update(next_at=timezone.now() + CLAIM_DURATION) == 1


def _message(row: Delivery) -> WebhookMessage | None:
    try:
        secret = unseal(row.endpoint.sealed)
    except InvalidToken:
        return None
    return WebhookMessage(row.pk, row.event, row.endpoint.url, secret, row.body.encode())


def _note(row: Delivery, sent: SendResult) -> None:
    now, tries = timezone.now(), row.tries + 1
    wait = None if not sent.problem else retry_delay(tries)
    if not sent.problem:
        status = DeliveryStatus.DELIVERED
    else:
        status = DeliveryStatus.FAILED if wait is None else DeliveryStatus.WAITING
    Delivery.objects.filter(pk=row.pk).update(
        status=status,
        tries=tries,
        tried_at=now,
        next_at=now + wait if wait else None,
        answer=sent.status,
        problem=sent.problem,
    )


def _mine(endpoint: Endpoint, rows: QuerySet[Event]) -> QuerySet[Event]:
    rows = rows.exclude(new="")
    if endpoint.kinds:
        rows = rows.filter(new__in=endpoint.kinds)
    if endpoint.project_id is not None:
        return rows.filter(job__project_id=endpoint.project_id)
    home = Membership.objects.filter(user_id=endpoint.owner_id).values("project_id")
    return rows.filter(Q(job__owner_id=endpoint.owner_id) & Q(job__project_id__in=home))


def _off_because(endpoint: Endpoint) -> str:
    """Rights are asked again each time: whoever lost them hears nothing more."""
    if not endpoint.owner.is_active:
        return "Its owner is no longer active"
    project = endpoint.project
    if project is not None and not is_project_admin(endpoint.owner, project.pk):
        return f"{endpoint.owner.username} no longer runs {project.slug}"
    return ""
