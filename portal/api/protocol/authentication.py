"""API tokens: who calls REST. What they may do is in `permissions`, what they see in selectors."""

from knox.auth import TokenAuthentication
from rest_framework.authentication import get_authorization_header
from rest_framework.exceptions import AuthenticationFailed
from rest_framework.request import Request

from portal.accounts.models import ApiToken, User
from portal.accounts.tokens import is_expired, token_mark_used, token_with_text
from portal.audit.codes import AuditAction
from portal.audit.security_events import security_event_record


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
        token_mark_used(token)
        return user, token

    def authenticate_credentials(self, token: bytes) -> tuple[User, ApiToken]:
        """As Knox does it, with the text of its query kept."""
        row = token_with_text(token.decode())
        # An expired token is refused but stays listed, so that its owner sees why.
        if row is None or is_expired(row):
            raise AuthenticationFailed("Invalid token.")
        found: tuple[User, ApiToken] = self.validate_user(row)
        return found

    def authenticate_header(self, request: Request) -> str:
        return "Bearer"
