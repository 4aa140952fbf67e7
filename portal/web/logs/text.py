"""What a program wrote, as harmless text: nothing in it moves a cursor, turns words around, sets a
title or hides. Pure."""

import re

# Escape sequences. Each looks no further than the next ESC, so that no line costs more than itself.
ESCAPES = re.compile(
    r"\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)"  # OSC: titles, links, the clipboard
    r"|\x1b\[[0-?]*[ -/]*[@-~]"  # CSI: colours, moves
    r"|\x1b[PX^_][^\x1b]*\x1b\\"  # DCS, SOS, PM, APC
    r"|\x1b[ -/]*[0-~]?"
)
# Controls but the tab, line separators, marks of direction, and what has no width or no look.
UNSAFE = re.compile(
    "[\x00-\x08\x0a-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff"
    "\ufff9-\ufffb\U000e0000-\U000e007f\ud800-\udfff]"
)


def plain(line: str) -> str:
    """One line as it would stand at last: what a carriage return wrote over is gone."""
    return UNSAFE.sub("", ESCAPES.sub("", line.rstrip("\r\n").rpartition("\r")[2]))


def shown(data: bytes) -> str:
    """The same, of bytes: those that are no UTF-8 are shown as U+FFFD."""
    return plain(data.decode(errors="replace"))
