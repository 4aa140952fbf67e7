"""Browser sessions: list them, record their last use, and sign them out remotely."""

import time
from collections.abc import Callable, Collection
from typing import Any

from allauth.usersessions.models import UserSession
from django.contrib.auth import HASH_SESSION_KEY, SESSION_KEY
from django.contrib.sessions.models import Session
from django.db import transaction
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.utils import timezone
from django.utils.crypto import constant_time_compare

from portal.accounts.models import User
from portal.accounts.profiles import user_audit
from portal.audit.codes import AuditAction
from portal.live.bell import ring

ACTIVITY_INTERVAL_SECONDS = 300
ACTIVITY_KEY = "seen_at"


def user_bell(user_pk: int) -> str:
    """The key that rings when a session of the user ends. It names no session: the key of one is a
    secret, and rings pass through Redis."""
    return f"user:{user_pk}"


def active_sessions(user: User) -> QuerySet[UserSession]:
    """The user's sessions that have not expired, last used first."""
    unexpired = Session.objects.filter(expire_date__gt=timezone.now()).values("session_key")
    rows: QuerySet[UserSession] = UserSession.objects.filter(user=user, session_key__in=unexpired)
    return rows.order_by("-last_seen_at", "-pk")


def is_session_live(user_pk: int, session_key: str) -> bool:
    """Whether the user is still signed in with this session: it exists, and the password has not
    changed since."""
    user = User.objects.filter(pk=user_pk).first()
    return user is not None and bool(live_sessions([(user, session_key)]))


def live_sessions(pairs: Collection[tuple[User, str]]) -> set[tuple[int, str]]:
    """The keys of users, with those of their sessions, with which they are still signed in. One
    query."""
    rows = Session.objects.filter(
        session_key__in={key for _, key in pairs}, expire_date__gt=timezone.now()
    )
    data = {row.session_key: row.get_decoded() for row in rows}
    return {(user.pk, key) for user, key in pairs if key in data and _is_theirs(data[key], user)}


def _is_theirs(data: dict[str, Any], user: User) -> bool:
    """Whether the session with these values is one of the user's, since the password was set."""
    digest = str(data.get(HASH_SESSION_KEY, ""))
    hashes = (user.get_session_auth_hash(), *user.get_session_auth_fallback_hash())
    is_theirs = str(data.get(SESSION_KEY)) == str(user.pk)
    return is_theirs and any(constant_time_compare(digest, each) for each in hashes)


def is_signed_in(session_key: str) -> bool:
    """Whether the cookie of a browser with this value is that of somebody who is signed in."""
    return session_user(session_key) is not None


def session_user(session_key: str) -> User | None:
    """Who is signed in with the browser whose cookie has this value."""
    row = Session.objects.filter(session_key=session_key).first() if session_key else None
    user_pk = str(row.get_decoded().get(SESSION_KEY, "")) if row else ""
    user = User.objects.filter(pk=int(user_pk)).first() if user_pk.isdecimal() else None
    return user if user and live_sessions([(user, session_key)]) else None


def session_end(*, session: UserSession, actor: str = "") -> None:
    """Sign a browser out; its next request is anonymous."""
    with transaction.atomic():
        Session.objects.filter(session_key=session.session_key).delete()
        user_audit(
            session.user, AuditAction.SESSION_END, actor=actor, before={"address": session.ip}
        )
        session.delete()
        ring(user_bell(session.user_id))


def sessions_end_others(*, user: User, except_key: str) -> int:
    """Sign out all browsers of the user except the one with this session key; returns how many."""
    with transaction.atomic():
        rows = UserSession.objects.filter(user=user).exclude(session_key=except_key)
        live = Session.objects.filter(session_key__in=rows.values("session_key"))
        count = live.filter(expire_date__gt=timezone.now()).count()
        live.delete()
        rows.delete()
        ring(user_bell(user.pk))
        if count:
            user_audit(user, AuditAction.SESSION_END_OTHERS, before={"sessions": count})
    return count


class SessionActivityMiddleware:
    """Records when a session was last used, at most every five minutes.

    Streams and API tokens do not count as use.
    """

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        response = self.get_response(request)
        # Do not load a session only for this, nor for a response that stays open.
        if request.session.accessed and not response.streaming:
            self._record(request)
        return response

    def _record(self, request: HttpRequest) -> None:
        last, now = request.session.get(ACTIVITY_KEY), int(time.time())
        if last and now - last >= ACTIVITY_INTERVAL_SECONDS:
            request.session[ACTIVITY_KEY] = now
            rows = UserSession.objects.filter(session_key=request.session.session_key)
            rows.update(last_seen_at=timezone.now())
