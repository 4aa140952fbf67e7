"""The secret of an endpoint: created, encrypted for storage, and used to sign messages."""

import base64
import hashlib
import hmac
import secrets

from cryptography.fernet import Fernet, MultiFernet
from django.conf import settings

PREFIX = "whs_"


def new_secret() -> str:
    return PREFIX + secrets.token_urlsafe(32)


def seal(secret: str) -> str:
    """The encrypted secret to store. A copy of the database alone cannot sign anything."""
    return _cipher().encrypt(secret.encode()).decode()


def unseal(sealed: str) -> str:
    """The secret. Raises cryptography.fernet.InvalidToken if the server's key has changed."""
    return _cipher().decrypt(sealed.encode()).decode()


def signature(secret: str, timestamp: int, body: bytes) -> str:
    """`v1=` and HMAC-SHA256 over "<timestamp>.<body>", in hexadecimal."""
    message = str(timestamp).encode() + b"." + body
    return "v1=" + hmac.new(secret.encode(), message, hashlib.sha256).hexdigest()


def _cipher() -> MultiFernet:
    """Seals with the present key, and also opens what an earlier one sealed."""
    known = [settings.SECRET_KEY, *settings.SECRET_KEY_FALLBACKS]
    return MultiFernet([Fernet(_key(secret)) for secret in known])


def _key(secret: str) -> bytes:
    digest = hashlib.sha256(b"tessera webhooks\0" + secret.encode()).digest()
    return base64.urlsafe_b64encode(digest)
