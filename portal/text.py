"""What people write for others to read, without what would mislead them."""

MAX_REASON_LENGTH = 200


def single_line(text: str, max_length: int = MAX_REASON_LENGTH) -> str:
    """As one line of at most so many characters: no controls, nothing that turns words around or
    hides. A database takes no NUL, and a page shows none of the others."""
    words = " ".join(text.split())
    return "".join(char for char in words if char.isprintable()).strip()[:max_length]
