"""The console's view of duties: who plans now, and when it was last done."""

from django.contrib import admin

from portal.admin_base import ReadOnlyAdmin
from portal.leases.models import Duty


@admin.register(Duty)
class DutyAdmin(ReadOnlyAdmin):
    list_display = ("name", "rung", "expires_at", "stamped_at")
    exclude = ("token",)
