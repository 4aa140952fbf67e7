"""The history of every status, and the audit trail of privileged changes.

Foreign keys are named by strings: every package above writes history.
"""

from django.db import models


class Event(models.Model):
    """One line of history, append-only. Its id orders live streams (`Last-Event-ID`)."""

    id = models.BigAutoField(primary_key=True)
    at = models.DateTimeField()
    # The kind of row ("job", "slice") and its primary key.
    noun = models.CharField(max_length=16)
    noun_id = models.CharField(max_length=64)
    job = models.ForeignKey("jobs.Job", null=True, on_delete=models.CASCADE, related_name="events")
    node = models.ForeignKey(
        "inventory.Node", null=True, on_delete=models.CASCADE, related_name="events"
    )
    project = models.ForeignKey(
        "accounts.Project", null=True, on_delete=models.CASCADE, related_name="+"
    )
    # Statuses; both are empty where no status changed.
    old = models.CharField(max_length=20, blank=True, default="")
    new = models.CharField(max_length=20, blank=True, default="")
    # The reason code of the change, or the name of the event.
    code = models.CharField(max_length=64, blank=True, default="")
    sentence = models.CharField(max_length=1024, blank=True, default="")
    # A user name, `node:<name>` or `system`.
    actor = models.CharField(max_length=160)
    # What the sentence was made of ("reason" or "said"), for other languages; "phrase" in rows of
    # earlier versions.
    data = models.JSONField(default=dict)

    class Meta:
        ordering = ("id",)
        indexes = [
            models.Index(fields=("job", "id"), name="event_job"),
            models.Index(fields=("node", "id"), name="event_node"),
            models.Index(fields=("noun", "noun_id"), name="event_noun"),
        ]

    def __str__(self) -> str:
        return f"{self.noun} {self.noun_id}: {self.old} -> {self.new}"


class AuditEntry(models.Model):
    """A privileged change, written in its transaction, or a security event. It never holds a
    secret."""

    id = models.BigAutoField(primary_key=True)
    at = models.DateTimeField()
    actor = models.CharField(max_length=160)
    action = models.CharField(max_length=64)
    noun = models.CharField(max_length=16)
    noun_id = models.CharField(max_length=64)
    project = models.ForeignKey(
        "accounts.Project", null=True, on_delete=models.SET_NULL, related_name="+"
    )
    before = models.JSONField(default=dict)
    after = models.JSONField(default=dict)
    # Where the call came from, as far as it is believed; empty for commands and workers.
    address = models.CharField(max_length=64, blank=True, default="", db_default="")
    # The id of the call, as in the log and in its response.
    request_id = models.CharField(max_length=64, blank=True, default="", db_default="")
    # How often it happened; more than 1 for security events only.
    occurrences = models.PositiveIntegerField(default=1, db_default=1)
    # Of a security event, the minutes since the epoch: one line for kind, address and minute.
    minute = models.BigIntegerField(null=True, blank=True)

    class Meta:
        ordering = ("-id",)
        constraints = [
            models.UniqueConstraint(
                fields=("minute", "action", "address"),
                condition=models.Q(minute__isnull=False),
                name="audit_line_of_minute",
            )
        ]
        verbose_name_plural = "audit entries"

    def __str__(self) -> str:
        return f"{self.actor} {self.action} {self.noun} {self.noun_id}"
