"""The browsers that are signed in: listed by name, and signed out."""

import re
from dataclasses import dataclass
from datetime import datetime

from allauth.usersessions.models import UserSession
from django.contrib import messages
from django.contrib.auth import logout
from django.contrib.auth.decorators import login_required
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.utils.translation import gettext as _
from django.utils.translation import ngettext
from django.views.decorators.http import require_POST

from portal.accounts.sessions import active_sessions, session_end, sessions_end_others
from portal.web.http import AuthenticatedHttpRequest

# The first match counts: each of these browsers also names the ones below it.
BROWSERS = [
    (r"Edg/", "Edge"),
    (r"OPR/", "Opera"),
    (r"Firefox/", "Firefox"),
    (r"Chrom(e|ium)/", "Chrome"),
    (r"Safari/", "Safari"),
    (r"^curl/", "curl"),
    (r"^python", "Python"),
]
SYSTEMS = [
    (r"Windows", "Windows"),
    (r"Android", "Android"),
    (r"iPhone|iPad", "iOS"),
    (r"Mac OS X|Macintosh", "macOS"),
    (r"Linux|X11", "Linux"),
]


@dataclass(frozen=True, slots=True)
class Browser:
    pk: int
    # Such as "Firefox, Linux".
    name: str
    user_agent: str
    address: str
    signed_in_at: datetime
    last_used_at: datetime
    is_this: bool


def browser_of(row: UserSession, request: HttpRequest) -> Browser:
    is_this = row.session_key == request.session.session_key
    times = row.created_at, row.last_seen_at
    return Browser(row.pk, browser_name(row.user_agent), row.user_agent, row.ip, *times, is_this)


def browser_name(agent: str) -> str:
    """Browser and operating system from a user agent string."""
    names = [
        next((name for pattern, name in table if re.search(pattern, agent, re.I)), "")
        for table in (BROWSERS, SYSTEMS)
    ]
    return ", ".join(name for name in names if name) or _("unknown browser")


@require_POST
@login_required
def end(request: AuthenticatedHttpRequest, pk: int) -> HttpResponse:
    """Sign one browser out. Another user's answers 404."""
    row = active_sessions(request.user).filter(pk=pk).select_related("user").first()
    if row is None:
        raise Http404
    is_this = row.session_key == request.session.session_key
    session_end(session=row)
    if is_this:
        logout(request)
        return redirect("web:sign_in")
    messages.success(request, _("That browser is signed out"))
    return redirect("web:account")


@require_POST
@login_required
def end_others(request: AuthenticatedHttpRequest) -> HttpResponse:
    count = sessions_end_others(user=request.user, except_key=request.session.session_key or "")
    text = ngettext("%(n)s browser is signed out", "%(n)s browsers are signed out", count)
    messages.success(request, text % {"n": count})
    return redirect("web:account")
