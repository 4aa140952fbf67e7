"""Browsers that are signed in: listed, followed coarsely, and signed out from afar."""

import time
from collections.abc import Callable

from allauth.usersessions.models import UserSession
from django.contrib.sessions.models import Session
from django.db import transaction
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.utils import timezone

from portal.accounts.models import User
from portal.accounts.profiles import user_audit

ACTIVITY_INTERVAL_SECONDS = 300
ACTIVITY_KEY = "seen_at"


def active_sessions(user: User) -> QuerySet[UserSession]:
    """The user's sign-ins that still work, the last used first."""
    alive = Session.objects.filter(expire_date__gt=timezone.now()).values("session_key")
    rows: QuerySet[UserSession] = UserSession.objects.filter(user=user, session_key__in=alive)
    return rows.order_by("-last_seen_at", "-pk")


def session_end(*, session: UserSession, actor: str = "") -> None:
    """Sign a browser out: its next request is a stranger's."""
    with transaction.atomic():
        Session.objects.filter(session_key=session.session_key).delete()
        user_audit(session.user, "session_end", actor=actor, before={"address": session.ip})
        session.delete()


def sessions_end_others(*, user: User, except_key: str) -> int:
    """Sign out every browser of the user but the one with this session key. Answers how many."""
    with transaction.atomic():
        rows = UserSession.objects.filter(user=user).exclude(session_key=except_key)
        live = Session.objects.filter(session_key__in=rows.values("session_key"))
        count = live.filter(expire_date__gt=timezone.now()).count()
        live.delete()
        rows.delete()
        if count:
            user_audit(user, "session_end_others", before={"sessions": count})
    return count


class SessionActivityMiddleware:
    """Notes a session's last use at most every five minutes; streams and tokens do not count."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        response = self.get_response(request)
        # A session that nobody read is not read for this, nor one behind an answer that stays open.
        if request.session.accessed and not response.streaming:
            self._note(request)
        return response

    def _note(self, request: HttpRequest) -> None:
        seen, now = request.session.get(ACTIVITY_KEY), int(time.time())
        if seen and now - seen >= ACTIVITY_INTERVAL_SECONDS:
            request.session[ACTIVITY_KEY] = now
            rows = UserSession.objects.filter(session_key=request.session.session_key)
            rows.update(last_seen_at=timezone.now())
