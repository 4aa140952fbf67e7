"""What to tell whom, each once; the mails that tell it; and what each person wants to be told."""

from django.conf import settings
from django.core.validators import MaxValueValidator, MinValueValidator
from django.db import models
from django.db.models import Q

from portal.accounts.models import User
from portal.choices import choices_from_enum, enum_check
from portal.jobs.models import Job
from portal.notices.kinds import DEFAULT_KINDS, NoticeKind
from portal.webhooks.models import Endpoint
from portal.webhooks.values import DeliveryStatus

DEFAULT_WAIT_MINUTES, DEFAULT_LEAD_MINUTES = 10, 15
MAX_MINUTES = 24 * 60


class NoticeSettings(models.Model):
    """What a person wants to be mailed. Without a row: `default_settings`."""

    user = models.OneToOneField(
        settings.AUTH_USER_MODEL,
        primary_key=True,
        on_delete=models.CASCADE,
        related_name="notice_settings",
    )
    kinds = models.JSONField(default=list, blank=True)
    # A start is told if the job waited at least this long.
    wait_minutes = models.PositiveSmallIntegerField(
        default=DEFAULT_WAIT_MINUTES, validators=[MaxValueValidator(MAX_MINUTES)]
    )
    # The time limit is told this long before.
    lead_minutes = models.PositiveSmallIntegerField(
        default=DEFAULT_LEAD_MINUTES,
        validators=[MinValueValidator(1), MaxValueValidator(MAX_MINUTES)],
    )

    def __str__(self) -> str:
        return f"notices of {self.user}"


def default_settings(user: User) -> NoticeSettings:
    """What a person who chose nothing is mailed, in a row that is not stored."""
    return NoticeSettings(user=user, kinds=sorted(DEFAULT_KINDS))


class NoticeMail(models.Model):
    """One mail to one person, with one notice or many; sent until the server accepts it."""

    recipient = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+"
    )
    is_test = models.BooleanField(default=False)
    status = models.CharField(
        max_length=12, choices=choices_from_enum(DeliveryStatus), default=DeliveryStatus.WAITING
    )
    tries = models.PositiveSmallIntegerField(default=0)
    created_at = models.DateTimeField()
    # When it is due; later while a worker sends it.
    next_at = models.DateTimeField(null=True, blank=True)
    sent_at = models.DateTimeField(null=True, blank=True)
    problem = models.CharField(max_length=200, blank=True, default="")

    class Meta:
        ordering = ("-id",)
        constraints = [enum_check("status", DeliveryStatus, "notice_mail_status")]
        indexes = [
            models.Index(fields=("status", "next_at"), name="notice_mail_due"),
            models.Index(fields=("recipient", "-created_at"), name="notice_mail_latest"),
        ]

    def __str__(self) -> str:
        return f"mail {self.pk} to {self.recipient}"


class Notice(models.Model):
    """One thing that one person, or one chat, is told. The unique keys make it once."""

    id = models.BigAutoField(primary_key=True)
    recipient = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        null=True,
        blank=True,
        on_delete=models.CASCADE,
        related_name="notices",
    )
    endpoint = models.ForeignKey(
        Endpoint, null=True, blank=True, on_delete=models.CASCADE, related_name="notices"
    )
    kind = models.CharField(max_length=12, choices=choices_from_enum(NoticeKind))
    # What it is about: an event, a job and its deadline, a budget and its limit.
    key = models.CharField(max_length=64)
    job = models.ForeignKey(Job, null=True, blank=True, on_delete=models.CASCADE, related_name="+")
    # Facts for its sentence.
    data = models.JSONField(default=dict)
    created_at = models.DateTimeField()
    # When it became part of a mail or of a chat message; null while it waits for that.
    gathered_at = models.DateTimeField(null=True, blank=True)
    mail = models.ForeignKey(
        NoticeMail, null=True, blank=True, on_delete=models.SET_NULL, related_name="notices"
    )

    class Meta:
        ordering = ("id",)
        constraints = [
            enum_check("kind", NoticeKind, "notice_kind"),
            models.CheckConstraint(
                condition=Q(recipient__isnull=False, endpoint__isnull=True)
                | Q(recipient__isnull=True, endpoint__isnull=False),
                name="notice_of_one",
            ),
            models.UniqueConstraint(
                fields=("recipient", "kind", "key"),
                condition=Q(recipient__isnull=False),
                name="notice_once_for_a_person",
            ),
            models.UniqueConstraint(
                fields=("endpoint", "kind", "key"),
                condition=Q(endpoint__isnull=False),
                name="notice_once_for_a_chat",
            ),
        ]
        indexes = [
            models.Index(
                fields=("created_at",), condition=Q(gathered_at__isnull=True), name="notice_waiting"
            )
        ]

    def __str__(self) -> str:
        return f"{self.kind} {self.key}"
