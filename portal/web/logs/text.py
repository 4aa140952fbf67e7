"""Program output as harmless text: no cursor moves, text direction changes, titles or invisible
characters. Pure."""

import re

# Escape sequences. None matches past the next ESC, so the time is linear in the line's length.
ESCAPES = re.compile(
    r"\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)"  # OSC: titles, links, the clipboard
    r"|\x1b\[[0-?]*[ -/]*[@-~]"  # CSI: colours, moves
    r"|\x1b[PX^_][^\x1b]*\x1b\\"  # DCS, SOS, PM, APC
    r"|\x1b[ -/]*[0-~]?"
)
# Control characters except the tab, line separators, direction marks, and characters without width
# or glyph.
UNSAFE = re.compile(
    "[\x00-\x08\x0a-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff"
    "\ufff9-\ufffb\U000e0000-\U000e007f\ud800-\udfff]"
)


def plain_text(line: str) -> str:
    """A line as a terminal would show it in the end: text overwritten after a carriage return is
    dropped."""
    return UNSAFE.sub("", ESCAPES.sub("", line.rstrip("\r\n").rpartition("\r")[2]))


def decode_line(data: bytes) -> str:
    """The plain text of a line; bytes that are not UTF-8 become U+FFFD."""
    return plain_text(data.decode(errors="replace"))
