"""Values of a request as one word, as flags and forms have them."""

from collections.abc import Mapping
from typing import Any


def volume_words(entry: Mapping[str, Any] | str) -> str:
    """NAME:/path or NAME:/path:ro, of a volume in a request."""
    if isinstance(entry, str):
        return entry
    return f"{entry['volume']}:{entry['path']}" + (":ro" if entry.get("read_only") else "")
