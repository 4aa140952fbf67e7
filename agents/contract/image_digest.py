"""Which bytes an image is. A tag may name other ones tomorrow.

Written as the digest of its manifest, by which every node can pull the same bytes. An image that no
registry has is written as its id with `id:` before it: it cannot be pulled, only compared.
"""

LOCAL = "id:"
MAX_DIGEST_LENGTH = 160


def local_digest(image_id: str) -> str:
    return f"{LOCAL}{image_id}"


def is_local(digest: str) -> bool:
    """Whether no registry has it."""
    return digest.startswith(LOCAL)
