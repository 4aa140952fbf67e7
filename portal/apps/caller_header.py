"""`X-Tessera-Caller`: who calls, signed, for apps that want to know.

A JSON Web Token (RFC 7519) with EdDSA (RFC 8037). Its key is derived from the portal's secret key;
an app's host serves the public ones at `/_tessera/keys`, so an app needs no secret to check it.
"""

import base64
import hashlib
import json
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

NAME = b"x-tessera-caller"
SECONDS = 60
_PURPOSE = b"tessera: who calls an app"


# All calls of one second by the same caller have the same value.
@lru_cache(maxsize=1_024)
def caller_header(
    *, secret_key: str, host: str, username: str, app: str, place: str, token: str, now: int
) -> bytes:
    """The header's value. `host`: the app's, so that no other app can pass it on. `place`: the
    label of its job or service. `token`: the first characters of a program's token; empty for a
    browser."""
    kind = "service" if place.startswith("S-") else "job"
    claims: dict[str, str | int] = {"aud": host, "sub": username, "app": app, kind: place}
    claims |= {"token": token} if token else {}
    claims |= {"iat": now, "exp": now + SECONDS}
    head = {"alg": "EdDSA", "typ": "JWT", "kid": _public_key(secret_key)["kid"]}
    signed = _text(json.dumps(head).encode()) + b"." + _text(json.dumps(claims).encode())
    return signed + b"." + _text(_key(secret_key).sign(signed))


def public_keys(secret_keys: Sequence[str]) -> bytes:
    """A JSON Web Key Set of the present key and of earlier ones."""
    return json.dumps({"keys": [_public_key(each) for each in secret_keys]}).encode()


@lru_cache(maxsize=8)
def _key(secret_key: str) -> Ed25519PrivateKey:
    derived = HKDF(SHA256(), 32, salt=None, info=_PURPOSE).derive(secret_key.encode())
    return Ed25519PrivateKey.from_private_bytes(derived)


@lru_cache(maxsize=8)
def _public_key(secret_key: str) -> dict[str, Any]:
    raw = _key(secret_key).public_key().public_bytes_raw()
    name = hashlib.sha256(raw).hexdigest()[:16]
    key = {"kty": "OKP", "crv": "Ed25519", "x": _text(raw).decode()}
    return key | {"kid": name, "alg": "EdDSA", "use": "sig"}


def _text(raw: bytes) -> bytes:
    return base64.urlsafe_b64encode(raw).rstrip(b"=")
