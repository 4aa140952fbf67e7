"""The form of a what-if: one row of inputs for each kind of change, and lines for further ones."""

from collections.abc import Callable, Mapping
from typing import Any

from django.utils.translation import gettext as _

from agents.contract.units import as_gpus
from portal.web.wording.messages import message_text
from scheduler.what_if.changes import ClusterChange
from scheduler.what_if.errors import ChangeRefusedError
from scheduler.what_if.json_format import (
    parse_layout,
    parse_mode,
    parse_nodes,
    parse_policy,
    parse_quota,
    write_change,
)

DEFAULT_DAYS = 7
MAX_LENGTH = 200
MAX_LINES = 50
INPUTS = (
    *("days", "quota_project", "quota_gpus", "nodes_count", "nodes_like", "without"),
    *("mode_model", "mode", "lines"),
)
# What begins a further line; the rest is as on the command line.
PARSERS: dict[str, Callable[[str], ClusterChange]] = {
    "quota": parse_quota,
    "nodes": parse_nodes,
    "layout": parse_layout,
    "mode": parse_mode,
    "policy": parse_policy,
}


class WhatIfForm:
    """What was typed, the changes that it means, and what is wrong with it."""

    def __init__(self, typed: Mapping[str, str]) -> None:
        self.values = {name: typed.get(name, "").strip() for name in INPUTS}
        self.values["days"] = self.values["days"] or str(DEFAULT_DAYS)
        self.errors: dict[str, str] = {}
        self.days = 0
        # Each change with the input that it was read from.
        self.changes: list[tuple[str, dict[str, Any]]] = []

    def read(self) -> None:
        days = self.values["days"]
        if days.isascii() and days.isdecimal() and len(days) <= 3:
            self.days = int(days)
        else:
            self.errors["days"] = _("Enter a number of days, such as 7")
        self._read_rows()
        self._read_lines()
        if not self.changes and not self.errors:
            self.errors["lines"] = _("Change at least one thing")

    def refuse(self, field: str, sentence: str) -> None:
        """What the service refused, at the input of the change that it names."""
        place, number = "lines", field.removeprefix("changes.").partition(".")[0]
        if field == "days":
            place = "days"
        elif number.isdecimal() and int(number) < len(self.changes):
            place = self.changes[int(number)][0]
        self.errors[place] = sentence

    def _read_rows(self) -> None:
        said = self.values
        rows = (
            ("quota_gpus", "quota", f"{said['quota_project']}={said['quota_gpus']}"),
            ("nodes_count", "nodes", f"{said['nodes_count']}:{said['nodes_like']}"),
            ("mode", "mode", f"{said['mode_model']}={said['mode']}"),
        )
        for name, kind, words in rows:
            if said[name]:
                self._parse(name, kind, words)
        if said["without"]:
            self.changes.append(("without", {"kind": "without", "node": said["without"]}))

    def _read_lines(self) -> None:
        lines = [line.strip() for line in self.values["lines"].splitlines() if line.strip()]
        for line in lines[:MAX_LINES]:
            kind, _space, words = line.partition(" ")
            if kind == "without":
                self.changes.append(("lines", {"kind": "without", "node": words.strip()}))
            elif kind in PARSERS:
                self._parse("lines", kind, words.strip())
            else:
                known = ", ".join((*PARSERS, "without"))
                sentence = _("A line begins with one of these words: %(words)s")
                self.errors.setdefault("lines", sentence % {"words": known})

    def _parse(self, name: str, kind: str, words: str) -> None:
        try:
            self.changes.append((name, write_change(PARSERS[kind](words[:MAX_LENGTH]))))
        except ChangeRefusedError as refused:
            self.errors.setdefault(name, message_text(refused.message))


def change_text(change: Mapping[str, Any]) -> str:
    """A stored change in words."""
    words = {name: value for name, value in change.items() if name != "kind"}
    match change["kind"]:
        case "quota":
            user, model = words["user"], words["model"]
            words["whose"] = f"{words['project']} / {user}" if user else words["project"]
            words["gpus"] = as_gpus(words["units"], round_up=False)
            if model:
                return _("%(whose)s may hold %(gpus)s GPUs of %(model)s") % words
            return _("%(whose)s may hold %(gpus)s GPUs") % words
        case "nodes":
            return _("%(count)s more nodes like %(like)s") % words
        case "without":
            return _("without %(node)s") % words
        case "layout":
            words["profiles"] = " + ".join(words["profiles"])
            return _("GPU %(gpu)s of %(node)s keeps %(profiles)s") % words
        case "mode":
            return _("GPUs of %(model)s begin as %(mode)s") % words
        case _:
            return f"{words.get('name', '')} = {words.get('value', '')}"
