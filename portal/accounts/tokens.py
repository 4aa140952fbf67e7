"""API tokens as callers send them: which row a text is of, and when it was last used."""

from datetime import timedelta
from hmac import compare_digest

from django.db.models import CharField, Q
from django.utils import timezone
from knox.crypto import hash_token
from knox.settings import CONSTANTS

from portal.accounts.models import ApiToken
from portal.database.kept_queries import KeptSelect

# `last_used_at` is written at most this often for each token.
LAST_USED_INTERVAL = timedelta(minutes=1)

# A few may begin alike.
_TOKENS = KeptSelect(
    lambda key: ApiToken.objects.filter(token_key=key).select_related("user"), CharField()
)


def token_with_text(text: str) -> ApiToken | None:
    """With its user. It may have expired."""
    rows: list[ApiToken] = list(_TOKENS.rows(text[: CONSTANTS.TOKEN_KEY_LENGTH]))
    for row in rows:
        if compare_digest(hash_token(text), row.digest):
            return row
    return None


def is_expired(token: ApiToken) -> bool:
    return token.expiry is not None and token.expiry <= timezone.now()


def token_mark_used(token: ApiToken) -> None:
    """At most one write a minute, however busy the token is."""
    now = timezone.now()
    stale = Q(last_used_at=None) | Q(last_used_at__lt=now - LAST_USED_INTERVAL)
    if token.last_used_at is None or token.last_used_at < now - LAST_USED_INTERVAL:
        ApiToken.objects.filter(stale, pk=token.pk).update(last_used_at=now)
