"""Register, test and remove webhooks, and resend deliveries. Sending is in `delivery`."""

import json
from collections.abc import Iterable
from datetime import datetime

from django.conf import settings
from django.db import transaction
from django.db.models import Max
from django.utils import timezone, translation
from django.utils.translation import gettext as _

from agents.contract.message import Message
from portal.accounts.models import Project, User
from portal.accounts.rights import require_project_admin
from portal.audit.codes import AuditAction
from portal.audit.models import Event
from portal.audit.services import audit_record
from portal.error_codes import ErrorCode
from portal.errors import Refused
from portal.webhooks.addresses import parse_networks, resolve_target
from portal.webhooks.chat import ChatFormat, ChatLine, address_shown, chat_body
from portal.webhooks.models import Delivery, Endpoint
from portal.webhooks.secrets import new_secret, seal
from portal.webhooks.values import DeliveryStatus
from scheduler.core.model.states import JobStatus

MAX_ENDPOINTS = 20
TEST_KIND = "test"


def endpoint_add(
    *,
    user: User,
    name: str,
    url: str,
    project: Project | None,
    kinds: Iterable[str],
    format: ChatFormat = ChatFormat.SIGNED,
) -> tuple[Endpoint, str]:
    """Register an endpoint; returns it and its signing secret, which is shown once. That of a chat
    is empty: nothing is signed, and its address is kept sealed.

    Raises Refused(forbidden, kinds_invalid, too_many_webhooks, url_invalid, host_unknown,
    address_forbidden).
    """
    if project is not None:
        require_project_admin(user, project)
    statuses = _valid_kinds(kinds)
    # Before the transaction, as resolving a name may take a while.
    resolve_target(url, parse_networks(settings.PLATFORM.webhook_networks))
    is_chat = format is not ChatFormat.SIGNED
    secret = "" if is_chat else new_secret()
    with transaction.atomic():
        User.objects.select_for_update(no_key=True).get(pk=user.pk)
        if Endpoint.objects.filter(owner=user).count() >= MAX_ENDPOINTS:
            sentence = Message(
                "You have %(n)s webhooks. Remove one that you no longer use", n=MAX_ENDPOINTS
            )
            raise Refused(ErrorCode.TOO_MANY_WEBHOOKS, sentence)
        newest = Event.objects.aggregate(last=Max("id"))["last"] or 0
        row = Endpoint.objects.create(
            owner=user,
            project=project,
            name=name,
            url=address_shown(url) if is_chat else url,
            sealed_url=seal(url) if is_chat else "",
            format=format,
            kinds=statuses,
            sealed=seal(secret) if secret else "",
            first_event=newest,
            seen_event=newest,
        )
        _audit(user, AuditAction.WEBHOOK_ADD, row)
    return row, secret


def endpoint_remove(*, endpoint: Endpoint, actor: User) -> None:
    """Remove an endpoint with its deliveries."""
    with transaction.atomic():
        _audit(actor, AuditAction.WEBHOOK_REMOVE, endpoint)
        endpoint.delete()


def endpoint_test(*, endpoint: Endpoint) -> Delivery:
    """Send a test message within seconds. A test that still waits is sent at once instead, so
    that repeated tests cannot flood the receiver. Raises Refused(webhook_off)."""
    _require_on(endpoint)
    waiting = endpoint.deliveries.filter(kind=TEST_KIND, status=DeliveryStatus.WAITING).first()
    if waiting is not None:
        return delivery_resend(delivery=waiting)
    now = timezone.now()
    return Delivery.objects.create(
        endpoint=endpoint, kind=TEST_KIND, body=_test_body(endpoint, now), next_at=now
    )


def _test_body(endpoint: Endpoint, now: datetime) -> str:
    if endpoint.is_chat:
        with translation.override(endpoint.owner.language or settings.LANGUAGE_CODE):
            text = _("This is a test message from Tessera. Notices about jobs will look like this.")
        return chat_body(ChatFormat(endpoint.format), [ChatLine(text)])
    body = {"id": 0, "type": TEST_KIND, "at": now.isoformat(), "sentence": "This is a test"}
    return json.dumps(body)


def delivery_resend(*, delivery: Delivery) -> Delivery:
    """Send a delivery again, with the same id for the receiver to recognise. One that still waits
    is sent at once. Raises Refused(webhook_off)."""
    _require_on(delivery.endpoint)
    delivery.status = DeliveryStatus.WAITING
    delivery.tries, delivery.next_at, delivery.problem = 0, timezone.now(), ""
    delivery.save(update_fields=["status", "tries", "next_at", "problem"])
    return delivery


def _require_on(endpoint: Endpoint) -> None:
    if endpoint.off_reason:
        sentence = Message("This webhook is off: %(because)s", because=endpoint.off_reason)
        raise Refused(ErrorCode.WEBHOOK_OFF, sentence)


def _valid_kinds(kinds: Iterable[str]) -> list[str]:
    statuses = sorted(set(kinds))
    known = {str(status) for status in JobStatus}
    if unknown := [word for word in statuses if word not in known]:
        sentence = Message(
            "%(word)s is not a job status. Choose from %(known)s",
            word=repr(unknown[0]),
            known=", ".join(sorted(known)),
        )
        raise Refused(ErrorCode.KINDS_INVALID, sentence, "kinds")
    return statuses


def _audit(actor: User, action: AuditAction, row: Endpoint) -> None:
    facts = {"name": row.name, "url": row.url, "kinds": row.kinds, "format": row.format}
    is_new = action is AuditAction.WEBHOOK_ADD
    audit_record(
        actor=actor.username,
        action=action,
        noun="webhook",
        noun_id=str(row.uid),
        project=row.project,
        before={} if is_new else facts,
        after=facts if is_new else {},
    )
