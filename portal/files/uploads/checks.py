"""Whether uploads can wait where the settings say: `manage.py check --deploy`, on a web server."""

import shutil
import tempfile
from pathlib import Path
from typing import Any

from django.core.checks import CheckMessage, Error, Warning

from portal.files.uploads.parts import MAX_UPLOAD_BYTES, MIB
from portal.spooled_bodies import spool_folder

# People send at the same time.
UPLOADS_AT_ONCE = 4
HINT = "Let TESSERA_SPOOL_FOLDER name a folder on a disk that the web server may write to."


def spool_check(**_: Any) -> list[CheckMessage]:
    folder = Path(spool_folder() or tempfile.gettempdir())
    if why := _refusal(folder):
        sentence = f"Nobody can send code on the request page: {folder} {why}."
        return [Error(sentence, hint=HINT, id="tessera.E_SPOOL")]
    free = shutil.disk_usage(folder).free
    if free < UPLOADS_AT_ONCE * MAX_UPLOAD_BYTES:
        sentence = (
            f"{folder}, where code waits that people send, has {free // MIB} MiB free. One upload "
            f"has up to {MAX_UPLOAD_BYTES // MIB} MiB, and several come at once."
        )
        return [Warning(sentence, hint=HINT, id="tessera.W_SPOOL")]
    return []


def _refusal(folder: Path) -> str:
    if not folder.is_dir():
        return "is no folder"
    try:
        with tempfile.TemporaryFile(dir=folder) as file:
            file.write(b"1")
    except OSError:
        return "cannot be written to"
    return ""
