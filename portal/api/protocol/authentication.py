"""API tokens: who calls REST. What they may do is in `permissions`, what they see in selectors."""

from datetime import timedelta
from hmac import compare_digest

from django.db.models import CharField, Q
from django.utils import timezone
from knox.auth import TokenAuthentication
from knox.crypto import hash_token
from knox.settings import CONSTANTS
from rest_framework.authentication import get_authorization_header
from rest_framework.exceptions import AuthenticationFailed
from rest_framework.request import Request

from portal.accounts.models import ApiToken, User
from portal.audit.codes import AuditAction
from portal.audit.security_events import security_event_record
from portal.database.kept_queries import KeptSelect

# `last_used_at` is written at most this often for each token.
LAST_USED_INTERVAL = timedelta(minutes=1)

# A few may begin alike.
_TOKENS = KeptSelect(
    lambda key: ApiToken.objects.filter(token_key=key).select_related("user"), CharField()
)


class BearerToken(TokenAuthentication):
    """`Authorization: Bearer tsr_…`. Knox's own keyword, `Token`, is accepted as well."""

    def authenticate(self, request: Request) -> tuple[User, ApiToken] | None:
        return self.authenticate_header_value(get_authorization_header(request))

    def authenticate_header_value(self, authorization: bytes) -> tuple[User, ApiToken] | None:
        """The caller, by the header Authorization; None if it has no such token. Raises
        AuthenticationFailed."""
        parts = authorization.split()
        if not parts or parts[0].lower() not in (b"bearer", b"token"):
            return None
        if len(parts) != 2 or not parts[1].isascii():
            raise AuthenticationFailed("Send exactly one token after Bearer")
        try:
            user, token = self.authenticate_credentials(parts[1])
        except AuthenticationFailed:
            security_event_record(AuditAction.TOKEN_REFUSED, noun="token")
            raise
        _mark_used(token)
        return user, token

    def authenticate_credentials(self, token: bytes) -> tuple[User, ApiToken]:
        """As Knox does it, with the text of its query kept."""
        text = token.decode()
        for row in _TOKENS.rows(text[: CONSTANTS.TOKEN_KEY_LENGTH]):
            if not self._cleanup_token(row) and compare_digest(hash_token(text), row.digest):
                found: tuple[User, ApiToken] = self.validate_user(row)
                return found
        raise AuthenticationFailed("Invalid token.")

    def authenticate_header(self, request: Request) -> str:
        return "Bearer"

    def _cleanup_token(self, auth_token: ApiToken) -> bool:
        """An expired token is refused but stays listed, so that its owner sees why."""
        return auth_token.expiry is not None and auth_token.expiry <= timezone.now()


def _mark_used(token: ApiToken) -> None:
    """At most one write a minute, however busy the token is."""
    now = timezone.now()
    stale = Q(last_used_at=None) | Q(last_used_at__lt=now - LAST_USED_INTERVAL)
    if token.last_used_at is None or token.last_used_at < now - LAST_USED_INTERVAL:
        ApiToken.objects.filter(stale, pk=token.pk).update(last_used_at=now)
