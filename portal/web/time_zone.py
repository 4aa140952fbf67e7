"""The reader's time zone: that of their account, else the browser's, else the portal's.

A small script (`portal/static/clock.js`) tells the browser's zone in a cookie. Streams and
previews name the zone of the page that they belong to in their address (`zone`), so that a page
has one clock even if the setting has changed since. REST has UTC (`portal.api.protocol.moments`).
"""

from collections.abc import Callable
from datetime import tzinfo

from django.conf import settings
from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.utils import timezone
from django.utils.translation import gettext as _
from django.views.decorators.http import require_POST

from portal.accounts.models import User
from portal.accounts.profiles import user_time_zone_set
from portal.accounts.time_zones import zone_named, zone_names

COOKIE = "time_zone"
# Names the zone of the page in the addresses that its script calls.
PARAMETER = "zone"
NOT_PAGES = ("/api/", "/healthz")


class TimeZoneMiddleware:
    """Activates the reader's zone while a page is made. Below the middleware of sign-in.

    `request.time_zone` is its name, and `request.follows_browser` whether it is the browser's. What
    is made later, such as the body of a stream, activates the zone again.

    It is synchronous, as it reads the account, and as its neighbours are: Django takes a request to
    a thread once for all of them. An asynchronous one would be taken there for itself.
    """

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        zone = _request_zone(request) if _is_page(request) else None
        with timezone.override(zone):
            return self.get_response(request)


@require_POST
@login_required
def set_time_zone(request: HttpRequest) -> HttpResponse:
    """The account's time zone; an empty one means: as the browser says."""
    name = request.POST.get("time_zone", "")
    if name and name not in zone_names():
        messages.error(request, _("Choose a time zone from the list"))
    elif isinstance(request.user, User):
        user_time_zone_set(user=request.user, time_zone=name)
        messages.success(request, _("Time zone saved"))
    return HttpResponseRedirect(f"{reverse('web:account')}#time-zone")


def _is_page(request: HttpRequest) -> bool:
    return not request.path_info.startswith(NOT_PAGES)


def _request_zone(request: HttpRequest) -> tzinfo:
    of_page = zone_named(request.GET.get(PARAMETER, ""))
    if PARAMETER in request.GET:
        # Views know nothing of it: lists keep what is left of their address in their links.
        rest = request.GET.copy()
        del rest[PARAMETER]
        request.GET = rest  # type: ignore[assignment]
    of_account = zone_named(_account_zone(request))
    of_browser = zone_named(request.COOKIES.get(COOKIE, ""))
    zone = of_page or of_account or of_browser or timezone.get_default_timezone()
    request.time_zone = str(zone)  # type: ignore[attr-defined]
    request.follows_browser = of_account is None  # type: ignore[attr-defined]
    return zone


def _account_zone(request: HttpRequest) -> str:
    # A visitor has no session to be read.
    if settings.SESSION_COOKIE_NAME not in request.COOKIES:
        return ""
    return request.user.time_zone if isinstance(request.user, User) else ""
