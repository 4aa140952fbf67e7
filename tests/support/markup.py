"""The text, links and forms of a page, as a browser without scripts would find them."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from html.parser import HTMLParser
from urllib.parse import urlencode

# Inputs for free text, so without numbers and times.
WRITTEN = {"", "text", "search", "email", "url"}
CHOSEN = {"checkbox", "radio"}
BOXES = {"pre", "code"}


TIME_TAG = re.compile(r"</?time\b[^>]*>")


def without_time_tags(text: str) -> str:
    """The markup of a page with the words of its times only."""
    return TIME_TAG.sub("", text)


@dataclass
class Form:
    """`fields`: their values on the page; `written`: the fields for free text; `buttons`: what each
    press adds."""

    action: str
    method: str
    fields: dict[str, str] = field(default_factory=dict)
    written: list[str] = field(default_factory=list)
    buttons: list[tuple[str, str]] = field(default_factory=list)

    @property
    def as_link(self) -> str:
        return f"{self.action}?{urlencode(self.fields)}" if self.fields else self.action


class Markup(HTMLParser):
    """`links`: addresses of links, files and GET forms. `names`: the ids on the page. `text`: the
    text of the page, without fields and code to copy."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.names: set[str] = set()
        self.forms: list[Form] = []
        self.text = ""
        self._form: Form | None = None
        self._boxes = 0
        self._select = self._textarea = ""
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        have = {name: value or "" for name, value in attrs}
        self.names.add(have.get("id", ""))
        self._boxes += tag in BOXES
        if tag in ("a", "link") and "href" in have:
            self.links.append(have["href"])
        elif tag in ("script", "img") and "src" in have:
            self.links.append(have["src"])
        elif tag == "form":
            self._form = Form(have.get("action", ""), have.get("method", "get").lower())
            self.forms.append(self._form)
        elif self._form:
            self._field(self._form, tag, have)

    def _field(self, form: Form, tag: str, have: dict[str, str]) -> None:
        name, kind = have.get("name", ""), have.get("type", "")
        if tag == "button" and name:
            form.buttons.append((name, have.get("value", "")))
        elif tag == "select":
            self._select = name
        elif tag == "option" and self._select and "value" in have:
            is_first = self._select not in form.fields
            if is_first or "selected" in have:
                form.fields[self._select] = have["value"]
        elif tag == "textarea" and name:
            self._textarea = name
            form.fields[name] = ""
            form.written.append(name)
        elif tag == "input" and name and (kind not in CHOSEN or "checked" in have):
            form.fields[name] = have.get("value", "")
            if kind in WRITTEN and have.get("inputmode") != "numeric":
                form.written.append(name)

    def handle_data(self, data: str) -> None:
        if self._form and self._textarea:
            self._form.fields[self._textarea] += data
        elif self._form and self._select:
            if data.strip():
                self._form.fields.setdefault(self._select, data.strip())
            self.text += data
        elif not self._boxes:
            self.text += data

    def handle_endtag(self, tag: str) -> None:
        self._boxes -= tag in BOXES
        if tag == "select":
            self._select = ""
        elif tag == "textarea":
            self._textarea = ""
        elif tag == "form" and self._form:
            if self._form.method == "get" and self._form.action:
                self.links.append(self._form.as_link)
            self._form = None
