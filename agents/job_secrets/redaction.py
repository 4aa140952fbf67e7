"""Hides the secrets of a replica in its log, by exact value.

A hidden byte is a byte still, so that offsets of the log stay what they are: the portal shows as
many asterisks as the value has bytes.
"""

import re
from collections.abc import Callable, Iterable

from agents.contract.job_secrets import MIN_SECRET_CHARACTERS

MASK = b"*"

ReadLog = Callable[[int, int], bytes]
"""Bytes of the log by offset and limit."""


class LogRedaction:
    """What hides the secrets of one replica."""

    def __init__(self, values: Iterable[str]) -> None:
        self._hidden = sorted(_spellings(values), key=len, reverse=True)
        self._longest = max(map(len, self._hidden), default=1)

    def read(self, read: ReadLog, offset: int, limit: int, *, is_complete: bool) -> bytes:
        """Bytes of the log from `offset` without secrets. What may become a secret with the next
        bytes waits for them, unless the log is complete.

        Bytes before and after are read as well, so that no value slips through a border."""
        start = max(0, offset - self._longest + 1)
        wanted = offset - start + limit
        found = read(start, wanted + self._longest - 1)
        end = len(found) if is_complete else len(found) - self._unfinished(found)
        return self.masked(found)[offset - start : min(end, wanted)]

    def masked(self, text: bytes) -> bytes:
        hidden = bytearray(text)
        for value in self._hidden:
            at = text.find(value)
            while at >= 0:
                hidden[at : at + len(value)] = MASK * len(value)
                at = text.find(value, at + 1)
        return bytes(hidden)

    def _unfinished(self, text: bytes) -> int:
        """The length of the longest end of it with which a value may begin."""
        return max((_begun(text, value) for value in self._hidden), default=0)


class WholeRedaction(LogRedaction):
    """For a replica whose values are gone, as after a restart of the node: hides all but the ends
    of lines."""

    def __init__(self) -> None:
        super().__init__(())

    def masked(self, text: bytes) -> bytes:
        return re.sub(rb"[^\n]", MASK, text)


def _spellings(values: Iterable[str]) -> set[bytes]:
    """The values as programs print them: also without the blanks around them, and line by line."""
    texts = set()
    for value in values:
        texts |= {value, value.strip(), *(line.strip() for line in value.splitlines())}
    return {text.encode() for text in texts if len(text) >= MIN_SECRET_CHARACTERS}


def _begun(text: bytes, value: bytes) -> int:
    """How many bytes of the value, but not all, the text ends with."""
    tail = text[-(len(value) - 1) :]
    at = tail.find(value[:1])
    while at >= 0:
        if value.startswith(tail[at:]):
            return len(tail) - at
        at = tail.find(value[:1], at + 1)
    return 0
