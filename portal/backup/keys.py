"""Fingerprints of secret keys: whether a portal can read the secrets of an archive."""

import hashlib
import hmac

from django.conf import settings

SUBJECT = b"tessera backup: fingerprint of a secret key"


def present_keys() -> list[str]:
    """The key that seals, then those that still open."""
    return [settings.SECRET_KEY, *settings.SECRET_KEY_FALLBACKS]


def key_print(key: str) -> str:
    """Tells keys apart and reveals nothing of a long random one."""
    return hmac.new(key.encode(), SUBJECT, hashlib.sha256).hexdigest()[:32]
