"""Text that people write for others to read, made safe to store and show."""

MAX_REASON_LENGTH = 200


def single_line(text: str, max_length: int = MAX_REASON_LENGTH) -> str:
    """The text as one line of at most `max_length` printable characters.

    Drops control and bidirectional characters, which could hide or reorder words; a database
    refuses NUL.
    """
    words = " ".join(text.split())
    return "".join(char for char in words if char.isprintable()).strip()[:max_length]
