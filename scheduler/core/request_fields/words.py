"""Values of a request as one word, as flags and forms have them."""

import re
from collections.abc import Mapping
from typing import Any

# "2-8", with whatever dash a text was pasted with.
_RANGE = re.compile(r"\s*([0-9]{1,9})\s*(?:[-\u2010-\u2015~]|\.\.+)\s*([0-9]{1,9})\s*")


def volume_words(entry: Mapping[str, Any] | str) -> str:
    """NAME:/path or NAME:/path:ro, of a volume in a request."""
    if isinstance(entry, str):
        return entry
    return f"{entry['volume']}:{entry['path']}" + (":ro" if entry.get("read_only") else "")


def count_range_words(value: Any) -> str:
    """4, or 2-8 of {min: 2, max: 8}."""
    if isinstance(value, Mapping):
        return f"{value.get('min', '')}-{value.get('max', '')}"
    return str(value)


def read_count_range(text: str) -> Any:
    """A number, or the least and the greatest one as a request writes them; any other text as it
    is, for the check of the request to refuse."""
    if found := _RANGE.fullmatch(text):
        return {"min": int(found[1]), "max": int(found[2])}
    is_short = text.strip().removeprefix("-").isdecimal() and len(text) < 10
    return int(text) if is_short else text
