"""A look into a file without downloading it: text, a table, a picture or charts of scalars. None of
it is run."""

import csv
import io
from dataclasses import dataclass, field

from portal.files.models import StoredFile
from portal.files.receiving import OBJECT_BYTES
from portal.storage.ranges import range_pieces
from portal.web.job.scalar_preview import ScalarPreview, has_events_name, scalar_preview

TEXT_BYTES = 64 << 10
TABLE_ROWS, TABLE_COLUMNS, CELL_CHARACTERS = 100, 30, 200
TABLES = {".csv": ",", ".tsv": "\t"}
IMAGE_BYTES = 16 << 20
# By their first bytes. SVG is none of them: it may hold scripts.
IMAGES = {
    b"\x89PNG\r\n\x1a\n": "image/png",
    b"\xff\xd8\xff": "image/jpeg",
    b"GIF87a": "image/gif",
    b"GIF89a": "image/gif",
}
WEBP = (b"RIFF", b"WEBP")
# What a text does not have.
BINARY = b"\0"


@dataclass(frozen=True, slots=True)
class FilePreview:
    """One of text, rows, picture and scalars, or none for a file that is none of these."""

    path: str
    size: int
    sha256: str
    text: str = ""
    rows: list[list[str]] = field(default_factory=list)
    is_image: bool = False
    scalars: ScalarPreview | None = None
    is_cut: bool = False
    """Only its beginning is shown."""

    @property
    def has_header(self) -> bool:
        """Whether the first row names the columns: no cell of it is a number."""
        return len(self.rows) > 1 and not any(map(_is_number, self.rows[0]))


def file_preview(file: StoredFile, path: str) -> FilePreview:
    """Raises StoreError."""
    head = file_head(file)
    facts = (path, file.size, file.sha256)
    if image_kind(head):
        return FilePreview(*facts, is_image=file.size <= IMAGE_BYTES)
    if has_events_name(path):
        return FilePreview(*facts, scalars=scalar_preview(file))
    is_cut = file.size > len(head)
    text = _text(head, is_cut=is_cut)
    if text is None:
        return FilePreview(*facts)
    name = path.rpartition("/")[2].lower()
    for ending, delimiter in TABLES.items():
        if name.endswith(ending) and (rows := _table(text, delimiter, is_cut=is_cut)):
            return FilePreview(*facts, rows=rows[:TABLE_ROWS], is_cut=len(rows) > TABLE_ROWS)
    return FilePreview(*facts, text=text, is_cut=is_cut)


def file_head(file: StoredFile) -> bytes:
    """Raises StoreError."""
    return b"".join(range_pieces(file.stream, 0, min(file.size, TEXT_BYTES), OBJECT_BYTES))


def image_kind(head: bytes) -> str:
    """The media type of a picture that browsers show; empty for anything else."""
    if head[:4] == WEBP[0] and head[8:12] == WEBP[1]:
        return "image/webp"
    return next((kind for magic, kind in IMAGES.items() if head.startswith(magic)), "")


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True


def _text(head: bytes, *, is_cut: bool) -> str | None:
    """None if it is no text. A character that is cut at the end is left out."""
    if BINARY in head:
        return None
    try:
        return head.decode()
    except UnicodeDecodeError as error:
        if is_cut and error.start > len(head) - 4:
            return head[: error.start].decode()
        return None


def _table(text: str, delimiter: str, *, is_cut: bool) -> list[list[str]]:
    """At most one row more than is shown; empty if it is no table."""
    lines = io.StringIO(text[: text.rfind("\n") + 1] if is_cut else text, newline="")
    rows: list[list[str]] = []
    try:
        for row in csv.reader(lines, delimiter=delimiter):
            rows.append([cell[:CELL_CHARACTERS] for cell in row[:TABLE_COLUMNS]])
            if len(rows) > TABLE_ROWS:
                break
    except csv.Error:
        return []
    if is_cut and len(rows) <= TABLE_ROWS:
        rows.append([])
    return rows
