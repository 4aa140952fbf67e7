"""What people write for others to read, without what would mislead them."""

MOST_OF_A_REASON = 200


def one_line(text: str, most: int = MOST_OF_A_REASON) -> str:
    """As one line of at most so many characters: no controls, nothing that turns words around or
    hides. A database takes no NUL, and a page shows none of the others."""
    words = " ".join(text.split())
    return "".join(char for char in words if char.isprintable()).strip()[:most]
