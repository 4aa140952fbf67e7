"""Read-only admin pages of the history and the audit trail."""

from django.contrib import admin

from portal.admin_base import ReadOnlyAdmin
from portal.audit.models import AuditEntry, Event


@admin.register(Event)
class EventAdmin(ReadOnlyAdmin):
    list_display = ("id", "at", "noun", "noun_id", "old", "new", "code", "sentence", "actor")
    list_filter = ("noun", "new", "project")
    search_fields = ("noun_id", "code", "actor", "sentence")
    ordering = ("-id",)
    show_full_result_count = False


@admin.register(AuditEntry)
class AuditEntryAdmin(ReadOnlyAdmin):
    list_display = (
        *("at", "actor", "action", "noun", "noun_id", "project", "before", "after"),
        *("address", "request_id", "occurrences"),
    )
    list_filter = ("action", "noun", "project")
    search_fields = ("actor", "action", "noun_id", "address", "request_id")
    list_select_related = ("project",)
