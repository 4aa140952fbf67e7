"""Read-only admin of what-ifs. They are created over REST or by the command."""

from django.contrib import admin

from portal.admin_base import ReadOnlyAdmin
from portal.what_if.models import WhatIf


@admin.register(WhatIf)
class WhatIfAdmin(ReadOnlyAdmin):
    list_display = (
        "id",
        "requester",
        "days",
        "shown_status",
        "progress",
        "created_at",
        "finished_at",
    )
    list_filter = ("status",)
    list_select_related = ("requester",)
