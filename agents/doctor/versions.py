"""Versions, compared by Debian's rules: `1.1.5+ds1-1+deb12u1 > 1.1.5+ds1-1`.

Source: Debian Policy 5.6.12 and deb-version(7). The same order serves plain upstream versions
(`580.95.05`, `1.17.8`); a pre-release of semantic versioning (`1.4.0-rc.3`) is read as `~rc.3`, so
that it sorts before its release.
"""

import re
from functools import total_ordering
from itertools import zip_longest

_PRE_RELEASE = re.compile(r"-(?=(?:alpha|beta|rc)[.\d])")
_PARTS = re.compile(r"(\D*)(\d*)")
_DISTRIBUTION = re.compile(r"\+(?:ds|dfsg|deb|b)\d|~deb\d|ubuntu|\.(?:el|fc|amzn)\d")


@total_ordering
class Version:
    """A version, as written. Versions that sort equally are equal (`1.0` and `1.00`)."""

    def __init__(self, written: str) -> None:
        self.written = written.strip().removeprefix("v")
        epoch, colon, rest = self.written.partition(":")
        text = rest if colon else epoch
        upstream, dash, revision = _PRE_RELEASE.sub("~", text).rpartition("-")
        self.epoch = int(epoch) if colon and epoch.isdigit() else 0
        self.upstream = upstream if dash else revision
        self.revision = revision if dash else ""

    @property
    def is_distribution_build(self) -> bool:
        """Whether it may contain fixes that its upstream version does not show."""
        return _DISTRIBUTION.search(self.written) is not None

    @property
    def series(self) -> tuple[int, int]:
        """Major and minor number: (1, 2) of `1.2.8`. Missing numbers are 0."""
        numbers = [int(n) for n in re.findall(r"\d+", self.upstream)[:2]]
        major, minor = [*numbers, 0, 0][:2]
        return major, minor

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Version) and _order(self, other) == 0

    def __lt__(self, other: "Version") -> bool:
        return _order(self, other) < 0

    def __hash__(self) -> int:
        # Equal versions may be written in several ways; the series is the same in all of them.
        return hash((self.epoch, self.series))

    def __repr__(self) -> str:
        return f"Version({self.written!r})"

    def __str__(self) -> str:
        return self.written


def _order(one: Version, other: Version) -> int:
    """Negative, 0 or positive, as `one` sorts before, with or after `other`."""
    if one.epoch != other.epoch:
        return one.epoch - other.epoch
    return _parts(one.upstream, other.upstream) or _parts(one.revision, other.revision)


def _parts(one: str, other: str) -> int:
    pairs = zip_longest(_PARTS.findall(one), _PARTS.findall(other), fillvalue=("", ""))
    for (letters, digits), (other_letters, other_digits) in pairs:
        by_letters = _letters(letters, other_letters)
        if by_letters:
            return by_letters
        by_number = int(digits or 0) - int(other_digits or 0)
        if by_number:
            return by_number
    return 0


def _letters(one: str, other: str) -> int:
    for a, b in zip_longest(one, other, fillvalue=""):
        if a != b:
            return _weight(a) - _weight(b)
    return 0


def _weight(letter: str) -> int:
    """`~` sorts before the end, the end before letters, letters before other characters."""
    if letter == "~":
        return -1
    if not letter:
        return 0
    return ord(letter) if letter.isalpha() else ord(letter) + 256
