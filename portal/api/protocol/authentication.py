"""Who is calling REST and what the token lets them do. Which rows they see is up to selectors."""

import math
from datetime import timedelta
from typing import Any

from django.db.models import Q
from django.utils import timezone
from knox.auth import TokenAuthentication
from rest_framework.authentication import get_authorization_header
from rest_framework.exceptions import AuthenticationFailed, NotAuthenticated
from rest_framework.permissions import BasePermission
from rest_framework.request import Request
from rest_framework.throttling import UserRateThrottle

from portal.accounts.models import ApiToken, Scope, User

SCOPE_ORDER = [Scope.READ, Scope.WRITE, Scope.ADMIN]
USED_EVERY = timedelta(minutes=1)


class BearerToken(TokenAuthentication):
    """`Authorization: Bearer tsr_…`. Knox's own word, `Token`, is understood as well."""

    def authenticate(self, request: Request) -> tuple[User, ApiToken] | None:
        parts = get_authorization_header(request).split()
        if not parts or parts[0].lower() not in (b"bearer", b"token"):
            return None
        if len(parts) != 2 or not parts[1].isascii():
            raise AuthenticationFailed("Send exactly one token after Bearer")
        user, token = self.authenticate_credentials(parts[1])
        _mark_used(token)
        return user, token

    def authenticate_header(self, request: Request) -> str:
        return "Bearer"

    def _cleanup_token(self, auth_token: ApiToken) -> bool:
        """An expired token is refused and stays listed, so that its owner sees why."""
        return auth_token.expiry is not None and auth_token.expiry <= timezone.now()


def _mark_used(token: ApiToken) -> None:
    """At most one write a minute, however busy the token is."""
    now = timezone.now()
    stale = Q(last_used_at=None) | Q(last_used_at__lt=now - USED_EVERY)
    if token.last_used_at is None or token.last_used_at < now - USED_EVERY:
        ApiToken.objects.filter(stale, pk=token.pk).update(last_used_at=now)


class ScopeAllows(BasePermission):
    """A token needs `read` to look and `write` to change, or what the view's `scopes` say.

    A browser session has all of its user's rights.
    """

    code = "scope_missing"
    message = "This token may not do that. Make one with a wider scope"

    def has_permission(self, request: Request, view: Any) -> bool:
        if not isinstance(request.auth, ApiToken):
            return True
        return SCOPE_ORDER.index(Scope(request.auth.scope)) >= SCOPE_ORDER.index(
            scope_needed(view, request.method or "")
        )


def scope_needed(view: Any, method: str) -> Scope:
    """The scope for a method: safe ones read, others write, unless `view.scopes` names another."""
    usual = Scope.READ if method in ("GET", "HEAD", "OPTIONS") else Scope.WRITE
    return Scope(getattr(view, "scopes", {}).get(method, usual))


def caller(request: Request) -> User:
    """The person behind the request, for services and selectors."""
    if not isinstance(request.user, User):
        raise NotAuthenticated
    return request.user


class SharedThrottle(UserRateThrottle):
    """So many calls in each minute (or what the rate says), over all web processes.

    The rates stand in REST_FRAMEWORK. A call that is turned away does not count.
    """

    num_requests: int
    duration: int

    def allow_request(self, request: Request, view: Any) -> bool:
        window, passed = divmod(self.timer(), self.duration)
        self.left = self.duration - passed
        # Two counts take turns: one has ended when its turn comes again.
        key = f"{self.get_cache_key(request, view)}:{int(window) % 2}"
        self.cache.add(key, 0, math.ceil(self.left))
        if self._counted(key, 1) <= self.num_requests:
            return True
        self._counted(key, -1)
        return False

    def wait(self) -> float:
        return self.left

    def _counted(self, key: str, by: int) -> int:
        try:
            return int(self.cache.incr(key, by))
        except ValueError:
            # It ended at this very moment.
            return 1


class CallThrottle(SharedThrottle):
    """How often one user may call."""

    scope = "call"


class SubmitThrottle(SharedThrottle):
    """How often one user may submit."""

    scope = "submit"
