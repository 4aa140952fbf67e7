"""What happened: the history of every status, and every privileged change by a person."""

from django.db import models

from portal.accounts.models import Project
from portal.inventory.models import Node
from portal.jobs.models import Job


class Event(models.Model):
    """One line of history, append-only. Its id orders live streams (`Last-Event-ID`).

    `old` and `new` are statuses, empty where the event is not a status change. `code` is the reason
    code or the event's own name; `actor` a user name, `node:<name>` or `system`.
    """

    id = models.BigAutoField(primary_key=True)
    at = models.DateTimeField()
    noun = models.CharField(max_length=16)
    noun_id = models.CharField(max_length=64)
    job = models.ForeignKey(Job, null=True, on_delete=models.CASCADE, related_name="events")
    node = models.ForeignKey(Node, null=True, on_delete=models.CASCADE, related_name="events")
    project = models.ForeignKey(Project, null=True, on_delete=models.CASCADE, related_name="+")
    old = models.CharField(max_length=20, blank=True, default="")
    new = models.CharField(max_length=20, blank=True, default="")
    code = models.CharField(max_length=64, blank=True, default="")
    sentence = models.CharField(max_length=1024, blank=True, default="")
    actor = models.CharField(max_length=160)
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
    """A privileged change, written in the same transaction. Before and after hold no secrets."""

    id = models.BigAutoField(primary_key=True)
    at = models.DateTimeField()
    actor = models.CharField(max_length=160)
    action = models.CharField(max_length=64)
    noun = models.CharField(max_length=16)
    noun_id = models.CharField(max_length=64)
    project = models.ForeignKey(Project, null=True, on_delete=models.SET_NULL, related_name="+")
    before = models.JSONField(default=dict)
    after = models.JSONField(default=dict)

    class Meta:
        ordering = ("-id",)
        verbose_name_plural = "audit entries"

    def __str__(self) -> str:
        return f"{self.actor} {self.action} {self.noun} {self.noun_id}"
