"""Read-only admin page of monthly reports: who got them, and when."""

from django.contrib import admin

from portal.admin_base import ReadOnlyAdmin
from portal.usage.models import MonthlyReport


@admin.register(MonthlyReport)
class MonthlyReportAdmin(ReadOnlyAdmin):
    list_display = ("project", "user", "month", "sent_at")
    list_select_related = ("project", "user")
