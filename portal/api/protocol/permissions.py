"""Who may call an operation. The schema names each permission as `x-required-role`.

A permission refuses with the code and sentence of `portal.accounts.rights`. Rights that depend on
the row or the body (a job's owner, a template's project) are checked by the services.
"""

from typing import Any

from rest_framework.permissions import BasePermission
from rest_framework.request import Request

from portal.accounts.models import ApiToken, Project, TokenScope, User
from portal.accounts.rights import require_platform_admin, require_project_admin
from portal.accounts.selectors import visible_project
from portal.error_codes import ErrorCode
from portal.errors import Refused

SCOPE_ORDER = [TokenScope.READ, TokenScope.WRITE, TokenScope.ADMIN]
SAFE_METHODS = ("GET", "HEAD", "OPTIONS")


class HasTokenScope(BasePermission):
    """A token needs `read` for safe methods and `write` for others, or what `view.scopes` names.

    A browser session has all of its user's rights.
    """

    code = ErrorCode.SCOPE_MISSING
    message = "This token's scope does not allow this. Use a token with a wider scope"

    def has_permission(self, request: Request, view: Any) -> bool:
        if not isinstance(request.auth, ApiToken):
            return True
        scope = TokenScope(request.auth.scope)
        return SCOPE_ORDER.index(scope) >= SCOPE_ORDER.index(
            required_scope(view, request.method or "")
        )


def required_scope(view: Any, method: str) -> TokenScope:
    """The token scope that a method of this view needs."""
    default = TokenScope.READ if method in SAFE_METHODS else TokenScope.WRITE
    return TokenScope(getattr(view, "scopes", {}).get(method, default))


class RolePermission(BasePermission):
    """Base of the permissions by role: `require` raises Refused, and the refusal is DRF's 403."""

    # As `x-required-role` names it; empty where everyone who sees the object may call.
    role = ""
    # Why this call was refused: DRF reads both after `has_permission`.
    code: str | None = None
    message: str | None = None

    def has_permission(self, request: Request, view: Any) -> bool:
        if not isinstance(request.user, User):
            return False
        try:
            self.require(request.user, view)
        except Refused as refused:
            if refused.status != 403:
                raise
            self.code, self.message = refused.code, refused.sentence
            return False
        return True

    def require(self, user: User, view: Any) -> None:
        raise NotImplementedError


class IsPlatformAdmin(RolePermission):
    role = "platform admin"

    def require(self, user: User, view: Any) -> None:
        require_platform_admin(user)


class SeesProject(RolePermission):
    """The caller sees the project in the address. Raises Refused(not_found, 404) otherwise."""

    def require(self, user: User, view: Any) -> None:
        _project_in_address(user, view)


class IsProjectAdmin(RolePermission):
    """The caller administers the project in the address, which they must see (else 404)."""

    role = "admin of the project"

    def require(self, user: User, view: Any) -> None:
        require_project_admin(user, _project_in_address(user, view))


def _project_in_address(user: User, view: Any) -> Project:
    return visible_project(user, view.kwargs["project"])
