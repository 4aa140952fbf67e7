"""Read-only admin page of leases: which work is being done, and when it was last done."""

from django.contrib import admin

from portal.admin_base import ReadOnlyAdmin
from portal.leases.models import TaskLease


@admin.register(TaskLease)
class TaskLeaseAdmin(ReadOnlyAdmin):
    list_display = ("name", "rung", "expires_at", "stamped_at")
    exclude = ("token",)
