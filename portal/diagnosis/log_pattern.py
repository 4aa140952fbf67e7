"""One row of the tables of patterns: words of a log line that name a cause. Pure."""

import re
from collections.abc import Iterable
from dataclasses import dataclass

from portal.jobs.failure_causes import Confidence, FailureCause


@dataclass(frozen=True, slots=True)
class LogPattern:
    """A line matches if it has one of the phrases and, where there is one, the expression.

    Phrases are looked for as they are, so a hostile line costs no more than its length. An
    expression is tried on lines with a phrase only, and has no repetition inside a repetition.
    """

    cause: FailureCause
    phrases: tuple[str, ...]
    sentence: str = ""
    """The headline, with names of the expression's groups; by default, the label of the cause."""
    expression: re.Pattern[str] | None = None
    in_exception: bool = False
    """Only the last line of a traceback counts: a program may print the words and go on."""
    is_consequence: bool = False
    """Another process usually failed before: any other cause goes first."""
    confidence: Confidence = Confidence.CERTAIN
    exit_codes: tuple[int, ...] = ()
    """The program ended with one of these, or the line is none; empty: with any."""

    def values_in(self, text: str) -> dict[str, str] | None:
        """The named groups of the expression, if the line matches."""
        if not any(phrase in text for phrase in self.phrases):
            return None
        if self.expression is None:
            return {}
        match = self.expression.search(text)
        return {k: v or "" for k, v in match.groupdict().items()} if match else None


def first_match(
    patterns: Iterable[LogPattern], text: str, *, is_exception: bool, exit_code: int | None
) -> tuple[LogPattern, dict[str, str]] | None:
    """The first row that the line matches, and its values."""
    for pattern in patterns:
        if pattern.in_exception and not is_exception:
            continue
        if pattern.exit_codes and exit_code not in pattern.exit_codes:
            continue
        values = pattern.values_in(text)
        if values is not None:
            return pattern, values
    return None
