"""How long a rate-limited user has to wait, from allauth's own counts."""

import math
import time

from allauth.core.internal.ratelimit import get_cache_key, get_rates
from django.core.cache import cache
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils.translation import gettext as _

from portal.audit.codes import AuditAction
from portal.audit.security_events import security_event_record
from portal.web.wording import labels as words

ACCOUNT, FACTORS = "allauth.account", "allauth.mfa"
# Actions whose rate limit answers with a whole page, not with an error at a field.
PAGE_ACTIONS = [
    (ACCOUNT, "login"),
    (ACCOUNT, "change_password"),
    (ACCOUNT, "reauthenticate"),
    (FACTORS, "webauthn_login"),
]


def seconds_left(request: HttpRequest, app: str, action: str, key: str | None = None) -> int:
    """Seconds until the next attempt is allowed; 0 if it is allowed now."""
    now, wait = time.time(), 0.0
    for rate in get_rates(app=app, action=action):
        if (rate.per == "key" and key is None) or (
            rate.per == "user" and not request.user.is_authenticated
        ):
            continue
        tries = cache.get(get_cache_key(request, app=app, action=action, rate=rate, key=key), [])
        live = sorted((at for at in tries if at > now - rate.duration), reverse=True)
        if len(live) >= rate.amount:
            wait = max(wait, live[rate.amount - 1] + rate.duration - now)
    return math.ceil(wait)


def wait_sentence(seconds: int) -> str:
    """The error after too many failed attempts."""
    wait = words.duration(max(seconds, 1))
    return _("Too many failed attempts. Try again in %(wait)s") % {"wait": wait}


def too_many_requests(request: HttpRequest) -> HttpResponse:
    """The 429 page of sign-in (`portal.urls.handler429`)."""
    security_event_record(AuditAction.THROTTLED, noun="sign-in")
    seconds = max(seconds_left(request, app, action) for app, action in PAGE_ACTIONS) or 60
    wait = words.duration(seconds)
    answer = render(request, "429.html", {"wait": wait}, status=429)
    answer["Retry-After"] = str(seconds)
    return answer
