"""The files that a browser sends with the request form, kept in one temporary file.

Every other page ignores files, whoever sends them: `takes_code_files` marks the views that do not.
"""

from collections.abc import Callable
from io import BytesIO
from tempfile import TemporaryFile
from typing import IO, Any, TypeVar

from django.core.files.uploadedfile import UploadedFile
from django.core.files.uploadhandler import FileUploadHandler, SkipFile
from django.http import HttpRequest

from portal.files.uploads.browser_files import (
    MAX_MANIFEST_BYTES,
    SentFile,
    files_upload,
    folder_upload,
)
from portal.files.uploads.parts import MAX_UPLOAD_BYTES, Upload, refused
from portal.files.uploads.services import too_large
from portal.spooled_bodies import spool_folder

# Chosen files; and a list of those of a folder, with the bytes of some: the page's script sends it,
# as Django keeps only what follows the last slash of a file's name.
FILES_FIELD, MANIFEST_FIELD, FOLDER_FIELD = "code_files", "code_manifest", "code_folder"
MARK = "takes_code_files"

View = TypeVar("View", bound=Callable[..., Any])


def takes_code_files(view: View) -> View:
    """Forms that are sent to the view may have files."""
    setattr(view, MARK, True)
    return view


class SentCodeFile(UploadedFile):  # type: ignore[type-arg]
    """One file that was sent."""

    def __init__(self, sent: SentFile, is_whole: bool) -> None:
        # Closed at the end of the request.
        super().__init__(file=sent.spool, name=sent.name, size=sent.size)
        self.sent = sent
        self.is_whole = is_whole


class CodeFileHandler(FileUploadHandler):
    """Takes files of signed-in users up to the limit of an upload, and drops what is beyond."""

    def __init__(self, request: HttpRequest | None = None) -> None:
        super().__init__(request)
        self._spool: IO[bytes] | None = None
        self._start = self._end = 0

    def new_file(self, *args: Any, **kwargs: Any) -> None:
        super().new_file(*args, **kwargs)
        if not self._is_taken():
            raise SkipFile
        self._start = self._end

    def receive_data_chunk(self, raw_data: bytes, start: int) -> None:
        self._end += len(raw_data)
        if self._is_within_limits:
            if self._spool is None:
                self._spool = TemporaryFile(dir=spool_folder())  # noqa: SIM115 - Django closes it
            self._spool.write(raw_data)

    def file_complete(self, file_size: int) -> SentCodeFile:
        spool = self._spool or BytesIO()
        sent = SentFile(str(self.file_name), spool, self._start, self._end - self._start)
        return SentCodeFile(sent, self._is_within_limits)

    @property
    def _is_within_limits(self) -> bool:
        return self._end <= MAX_UPLOAD_BYTES + MAX_MANIFEST_BYTES

    def _is_taken(self) -> bool:
        request = self.request
        match = getattr(request, "resolver_match", None)
        if request is None or match is None or not getattr(match.func, MARK, False):
            return False
        return bool(request.user.is_authenticated)


def sent_upload(request: HttpRequest) -> Upload | None:
    """What was chosen in the form, if anything. Raises Refused."""
    manifest, files = _sent(request, MANIFEST_FIELD), _sent(request, FILES_FIELD)
    if manifest:
        return folder_upload(manifest[0], _sent(request, FOLDER_FIELD))
    return files_upload(files) if files else None


def _sent(request: HttpRequest, field: str) -> list[SentFile]:
    """Raises Refused."""
    found = [file for file in request.FILES.getlist(field) if isinstance(file, SentCodeFile)]
    if not all(file.is_whole for file in found):
        raise refused(too_large())
    return [file.sent for file in found]
