"""The answers that are kept for keys."""

from django.conf import settings
from django.db import models


class KeptAnswer(models.Model):
    """What a caller was answered under a key. `asked`: the SHA-256 of the call. `status` null: it
    is being carried out since `begun_at`."""

    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+")
    key = models.CharField(max_length=128)
    asked = models.CharField(max_length=64)
    begun_at = models.DateTimeField()
    status = models.PositiveSmallIntegerField(null=True, blank=True)
    headers = models.JSONField(default=dict, blank=True)
    body = models.TextField(blank=True, default="")

    class Meta:
        ordering = ("id",)
        constraints = [models.UniqueConstraint(fields=("user", "key"), name="answer_once")]
        indexes = [models.Index(fields=("begun_at",), name="answer_age")]

    def __str__(self) -> str:
        return f"{self.key} of {self.user}"
