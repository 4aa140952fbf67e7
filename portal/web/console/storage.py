"""Where logs are kept, how much there is of each kind, and when it is removed."""

from dataclasses import dataclass

from django.db.models import Sum
from django.http import HttpResponse
from django.shortcuts import render
from django.utils.translation import gettext as _
from django.views.decorators.http import require_safe

from portal.retention.audit_lines import audit_use
from portal.retention.events import events_use
from portal.retention.files import files_use
from portal.retention.limits import StoredUse
from portal.retention.logs import logs_use
from portal.retention.tasks import audit_limits, event_limits, file_limits, log_limits
from portal.storage.errors import StoreUnavailable
from portal.storage.models import ByteStore
from portal.storage.stores import current_store, reachable_stores
from portal.web.console.access import platform_admins_only
from portal.web.http import AuthenticatedHttpRequest


@dataclass(frozen=True, slots=True)
class UseRow:
    """A line of the table of what is stored."""

    name: str
    use: StoredUse
    is_estimate: bool = False
    of_jobs: bool = True
    """Kept from the end of a job on, and not from its own time."""


@platform_admins_only
@require_safe
def storage(request: AuthenticatedHttpRequest) -> HttpResponse:
    rows = ByteStore.objects.annotate(bytes=Sum("segments__size")).order_by("-used_at")
    try:
        store, reachable = current_store(), reachable_stores()
    except StoreUnavailable:
        store, reachable = None, {}
    context = {
        "uses": [
            UseRow(_("Logs"), logs_use(log_limits())),
            UseRow(_("Files"), files_use(file_limits())),
            UseRow(_("Events"), events_use(event_limits()), is_estimate=True),
            UseRow(_("Audit trail"), audit_use(audit_limits()), is_estimate=True, of_jobs=False),
        ],
        "stores": [(row, row.key == (store and store.key), row.key in reachable) for row in rows],
        "current": store,
        "is_failing": store is None or store.is_failing,
    }
    return render(request, "web/console/storage.html", context)
