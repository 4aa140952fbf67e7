"""What is remembered of each idempotency key."""

from django.conf import settings
from django.db import models


class IdempotencyRecord(models.Model):
    """A key of one user, the call it was first used for, and that call's response."""

    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+")
    key = models.CharField(max_length=128)
    # SHA-256 of the call, in hexadecimal.
    request_digest = models.CharField(max_length=64, db_column="asked")
    begun_at = models.DateTimeField()
    # Null while the call is running.
    status = models.PositiveSmallIntegerField(null=True, blank=True)
    headers = models.JSONField(default=dict, blank=True)
    body = models.TextField(blank=True, default="")

    class Meta:
        db_table = "idempotency_keptanswer"
        ordering = ("id",)
        constraints = [models.UniqueConstraint(fields=("user", "key"), name="answer_once")]
        indexes = [models.Index(fields=("begun_at",), name="answer_age")]

    def __str__(self) -> str:
        return f"{self.key} of {self.user}"
