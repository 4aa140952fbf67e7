"""How strong a secret must be for production."""

from collections import Counter
from math import log2

MIN_LENGTH = 50
# 50 random hexadecimal digits have about 3.7 bits each by this count, 50 of base64 about 5.
MIN_BITS_PER_CHARACTER = 3.0
EXAMPLES = ("only-for-this-machine", "django-insecure", "changeme", "change-me", "secret")


def secret_problem(secret: str) -> str:
    """Why the secret is too weak; empty if it is not."""
    how = "make one with `openssl rand -base64 48`"
    if len(secret) < MIN_LENGTH:
        return (
            f"Set TESSERA_SECRET_KEY, or TESSERA_SECRET_KEY_FILE to a file with it, to at least "
            f"{MIN_LENGTH} random characters: {how}."
        )
    if any(secret.lower().startswith(example) for example in EXAMPLES):
        return f"TESSERA_SECRET_KEY begins like an example: {how}."
    if _bits_per_character(secret) < MIN_BITS_PER_CHARACTER or _is_repeated(secret):
        return f"TESSERA_SECRET_KEY repeats its characters, so it can be guessed: {how}."
    return ""


def _bits_per_character(text: str) -> float:
    """Shannon's entropy of its letters."""
    counts = Counter(text).values()
    return -sum(n / len(text) * log2(n / len(text)) for n in counts)


def _is_repeated(text: str) -> bool:
    """It is a shorter text, written again and again; the last time perhaps not to its end."""
    return any(
        text.startswith(text[:size] * (len(text) // size)) for size in range(1, len(text) // 2 + 1)
    )
