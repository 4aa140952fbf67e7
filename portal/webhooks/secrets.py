"""The secret of an endpoint: created, encrypted for storage, and used to sign messages."""

import base64
import hashlib
import hmac
import secrets

from portal.sealing import Seal

PREFIX = "whs_"


def new_secret() -> str:
    return PREFIX + secrets.token_urlsafe(32)


def seal(secret: str) -> str:
    """The encrypted secret to store. A copy of the database alone cannot sign anything."""
    return WEBHOOK_SEAL.seal(secret)


def unseal(sealed: str) -> str:
    """The secret. Raises cryptography.fernet.InvalidToken if the server's key has changed."""
    return WEBHOOK_SEAL.unseal(sealed)


def signature(secret: str, timestamp: int, body: bytes) -> str:
    """`v1=` and HMAC-SHA256 over "<timestamp>.<body>", in hexadecimal."""
    message = str(timestamp).encode() + b"." + body
    return "v1=" + hmac.new(secret.encode(), message, hashlib.sha256).hexdigest()


def _key(secret: str) -> bytes:
    digest = hashlib.sha256(b"tessera webhooks\0" + secret.encode()).digest()
    return base64.urlsafe_b64encode(digest)


WEBHOOK_SEAL = Seal(_key)
