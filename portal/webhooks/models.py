"""Webhook endpoints and the messages delivered to them."""

import uuid

from django.conf import settings
from django.db import models

from portal.accounts.models import Project
from portal.choices import choices_from_enum, enum_check
from portal.webhooks.chat import ChatFormat
from portal.webhooks.values import DeliveryStatus

MAX_URL = 500


class Endpoint(models.Model):
    """A URL that receives the events of its owner's jobs, or of all jobs of a project."""

    uid = models.UUIDField(default=uuid.uuid4, unique=True, editable=False)
    owner = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="webhooks"
    )
    # Null: the endpoint receives events of its owner's jobs only.
    project = models.ForeignKey(
        Project, null=True, blank=True, on_delete=models.CASCADE, related_name="webhooks"
    )
    name = models.CharField(max_length=64)
    url = models.CharField(max_length=MAX_URL)
    # A chat is sent notices (`portal.notices`) instead of signed events.
    format = models.CharField(
        max_length=12,
        choices=choices_from_enum(ChatFormat),
        default=ChatFormat.SIGNED,
        db_default=ChatFormat.SIGNED,
    )
    # Of a chat, whose address is its secret: `url` has only the host then.
    sealed_url = models.TextField(blank=True, default="", db_default="", editable=False)
    # The job statuses to report; empty for all.
    kinds = models.JSONField(default=list, blank=True)
    # The signing secret, encrypted with the server's key.
    sealed = models.CharField(max_length=400, editable=False)
    # Only later events are reported.
    first_event = models.BigIntegerField(default=0, editable=False)
    # The newest event that was collected.
    seen_event = models.BigIntegerField(default=0, editable=False)
    # Why the endpoint is switched off; empty while it is on.
    off_reason = models.CharField(max_length=200, blank=True, default="", db_column="off_because")
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ("id",)
        constraints = [enum_check("format", ChatFormat, "endpoint_format")]

    def __str__(self) -> str:
        return self.name

    @property
    def is_chat(self) -> bool:
        return self.format != ChatFormat.SIGNED


class Delivery(models.Model):
    """One message to one endpoint, retried until it is accepted or given up."""

    id = models.BigAutoField(primary_key=True)
    endpoint = models.ForeignKey(Endpoint, on_delete=models.CASCADE, related_name="deliveries")
    # 0 for a test message.
    event = models.BigIntegerField(default=0)
    kind = models.CharField(max_length=40)
    # Signed and sent byte for byte; a retry sends the same.
    body = models.TextField()
    status = models.CharField(
        max_length=12, choices=choices_from_enum(DeliveryStatus), default=DeliveryStatus.WAITING
    )
    tries = models.PositiveSmallIntegerField(default=0)
    created_at = models.DateTimeField(auto_now_add=True)
    next_at = models.DateTimeField(null=True, blank=True)
    tried_at = models.DateTimeField(null=True, blank=True)
    # The HTTP status of the last response.
    answer = models.PositiveSmallIntegerField(null=True, blank=True)
    problem = models.CharField(max_length=200, blank=True, default="")

    class Meta:
        ordering = ("-id",)
        verbose_name_plural = "deliveries"
        constraints = [
            enum_check("status", DeliveryStatus, "delivery_status"),
            models.UniqueConstraint(
                fields=("endpoint", "event"),
                condition=models.Q(event__gt=0),
                name="delivery_once",
            ),
        ]
        indexes = [models.Index(fields=("status", "next_at"), name="delivery_due")]

    def __str__(self) -> str:
        return f"{self.kind} to {self.endpoint}"
