"""The times of a page: those of its `<time>` elements, and those that stand anywhere else."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from html.parser import HTMLParser

CLOCK = re.compile(r"\b\d{1,2}:\d\d(?::\d\d)?\b")
# What programs and people wrote, not the portal: the lines of a log, code to copy, typed values.
# An example of what to type, such as "tomorrow 9:00", is in a help text.
QUOTED = {"pre", "code", "script", "style", "textarea", "option"}
VOID = {
    *("meta", "link", "input", "br", "hr", "img", "use", "line", "polyline", "rect", "circle"),
    *("path", "polygon", "ellipse", "stop"),
}
SHOWN_ATTRIBUTES = ("title", "aria-label", "alt")


@dataclass
class TimeElement:
    datetime: str
    title: str
    text: str = ""


@dataclass
class PageTimes(HTMLParser):
    """`elements`: all `<time>` with words. `bare`: clock times outside one, with what is around."""

    html: str
    elements: list[TimeElement] = field(default_factory=list)
    bare: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__()
        self._open: list[tuple[str, bool]] = []
        self.feed(self.html)
        self.close()
        self.elements = [element for element in self.elements if element.text.strip()]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        have = {name: value or "" for name, value in attrs}
        if tag == "time":
            self.elements.append(TimeElement(have.get("datetime", ""), have.get("title", "")))
        elif not self._is_quoted:
            self._keep(" ".join(have.get(name, "") for name in SHOWN_ATTRIBUTES))
        if tag not in VOID:
            is_log_line = tag == "li" and "id" in have and have["id"].startswith("r")
            is_example = "help" in have.get("class", "").split()
            self._open.append((tag, tag in QUOTED or is_log_line or is_example))

    def handle_endtag(self, tag: str) -> None:
        while self._open and tag not in VOID:
            name, _is_quote = self._open.pop()
            if name == tag:
                break

    def handle_data(self, data: str) -> None:
        if any(tag == "time" for tag, _is_quote in self._open):
            self.elements[-1].text += data
        elif not self._is_quoted:
            self._keep(data)

    @property
    def _is_quoted(self) -> bool:
        return any(is_quote for _tag, is_quote in self._open)

    def _keep(self, text: str) -> None:
        self.bare += [
            text[max(0, found.start() - 40) : found.end() + 40] for found in CLOCK.finditer(text)
        ]
