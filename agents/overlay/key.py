"""This node's WireGuard key. It never leaves the node; one that was lost is made anew."""

import base64
import contextlib
import os
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey


def public_key_of(path: Path) -> str:
    """The public half of the key in the file, which is made if there is no usable one."""
    key = _stored(path) or _made(path)
    return base64.b64encode(key.public_key().public_bytes_raw()).decode()


def _stored(path: Path) -> X25519PrivateKey | None:
    with contextlib.suppress(OSError, ValueError):
        raw = base64.b64decode(path.read_text("ascii").strip(), validate=True)
        return X25519PrivateKey.from_private_bytes(raw)
    return None


def _made(path: Path) -> X25519PrivateKey:
    key = X25519PrivateKey.generate()
    part = path.with_name(f".{path.name}.part")
    part.unlink(missing_ok=True)
    with os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(base64.b64encode(key.private_bytes_raw()).decode() + "\n")
    part.replace(path)
    return key
