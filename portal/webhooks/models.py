"""Where people want to be told of their jobs, and what was told when."""

import uuid

from django.conf import settings
from django.db import models

from portal.accounts.models import Project
from portal.choices import choices_from_enum, enum_check
from portal.webhooks.values import DeliveryStatus

MAX_URL = 500


class Endpoint(models.Model):
    """An address that hears of jobs: of the owner's own, or with `project` of all jobs of it.

    `kinds`: the statuses that it is told of, empty for all. `sealed`: the secret that signs, which
    only this server can open. Events up to `first_event` are not its business; `seen_event` is the
    newest one that was looked at. `off_because`: why it is told nothing any more.
    """

    uid = models.UUIDField(default=uuid.uuid4, unique=True, editable=False)
    owner = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="webhooks"
    )
    project = models.ForeignKey(
        Project, null=True, blank=True, on_delete=models.CASCADE, related_name="webhooks"
    )
    name = models.CharField(max_length=64)
    url = models.CharField(max_length=MAX_URL)
    kinds = models.JSONField(default=list, blank=True)
    sealed = models.CharField(max_length=400, editable=False)
    first_event = models.BigIntegerField(default=0, editable=False)
    seen_event = models.BigIntegerField(default=0, editable=False)
    off_because = models.CharField(max_length=200, blank=True, default="")
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ("id",)

    def __str__(self) -> str:
        return self.name


class Delivery(models.Model):
    """One message to one endpoint, sent until it is taken or given up. `event` 0: a test.

    `body` is what is signed and sent, byte for byte; sending again sends the same.
    """

    id = models.BigAutoField(primary_key=True)
    endpoint = models.ForeignKey(Endpoint, on_delete=models.CASCADE, related_name="deliveries")
    event = models.BigIntegerField(default=0)
    kind = models.CharField(max_length=40)
    body = models.TextField()
    status = models.CharField(
        max_length=12, choices=choices_from_enum(DeliveryStatus), default=DeliveryStatus.WAITING
    )
    tries = models.PositiveSmallIntegerField(default=0)
    created_at = models.DateTimeField(auto_now_add=True)
    next_at = models.DateTimeField(null=True, blank=True)
    tried_at = models.DateTimeField(null=True, blank=True)
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
