"""Rows as CSV that no spreadsheet calculates with."""

import csv
import io
import re
from collections.abc import Iterable
from typing import Any

# Spreadsheets take a cell that begins like this for a formula; a quote before it makes it text.
FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")
# A number begins like a formula, and is none.
NUMBER = re.compile(r"[+-]?[0-9]{1,40}(?:\.[0-9]{0,40})?(?:[eE][+-]?[0-9]{1,3})?")


def csv_lines(rows: Iterable[Iterable[Any]]) -> str:
    """CSV lines in which no cell is a formula."""
    written = io.StringIO()
    csv.writer(written).writerows([_cell(str(cell)) for cell in row] for row in rows)
    return written.getvalue()


def escape_formula(text: str) -> str:
    return f"'{text}" if text.lstrip(" ").startswith(FORMULA) else text


def _cell(text: str) -> str:
    return text if NUMBER.fullmatch(text) else escape_formula(text)
