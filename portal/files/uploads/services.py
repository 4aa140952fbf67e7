"""Stores an upload as code of a project: only the server says which contents it has.

The upload is read twice: once to check all of it and to hash it, and once more to store what the
project lacks. So nothing is stored of an upload that is refused.
"""

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass, replace

from pathspec import GitIgnoreSpec

from agents.contract.file_transfer import MAX_TREE_ENTRIES, FileContent, TreeFile
from agents.contract.message import Message
from portal.cli.code_folder import ALWAYS_IGNORED
from portal.files.models import CodeOrigin, StoredFile, Tree
from portal.files.receiving import (
    OBJECT_BYTES,
    FileChunk,
    WrongOffset,
    chunk_append,
    file_check,
    files_received,
)
from portal.files.services import BATCH, code_commit
from portal.files.uploads.parts import (
    MAX_UPLOAD_BYTES,
    MIB,
    BytesMissing,
    LeftOut,
    Upload,
    UploadPart,
    refused,
    require_path,
)

# An archive that unpacks to more than so many times its size holds no code.
MAX_RATIO = 200
# From where on that is looked at: small files of one letter are packed well.
RATIO_BYTES = 16 * MIB
IGNORED = GitIgnoreSpec.from_lines(ALWAYS_IGNORED)


@dataclass(frozen=True, slots=True)
class UploadedCode:
    tree: Tree
    left_out: LeftOut


def code_upload(*, project_id: int, upload: Upload, creator: str) -> UploadedCode:
    """The code that it is from now on. Raises Refused(invalid_field, stored_limit) and StoreError;
    nothing has changed then, but contents that are removed as any that no tree has."""
    left_out = LeftOut()
    files = _hashed(upload, left_out)
    if not files:
        raise refused("There is no file in what you chose, or only what is left out")
    _store(project_id, upload, files)
    tree = code_commit(
        project_id=project_id,
        files=list(files.values()),
        creator=creator,
        origin=CodeOrigin.UPLOAD,
    )
    return UploadedCode(tree, left_out)


def _hashed(upload: Upload, left_out: LeftOut) -> dict[str, TreeFile]:
    """The files of the tree by their paths in the upload, which may all lie in one folder."""
    found: dict[str, TreeFile] = {}
    total = 0
    for part in upload.parts(left_out):
        if _is_ignored(part.path):
            continue
        require_path(part.path)
        if part.path in found:
            raise refused(Message("%(path)s is there twice", path=ascii(part.path[:64])))
        if len(found) == MAX_TREE_ENTRIES:
            raise refused(too_large())
        content = part.known_content
        if content is None:
            content = _content(part, total, upload.sent_bytes)
        total += content.size
        if total > MAX_UPLOAD_BYTES:
            raise refused(too_large())
        found[part.path] = TreeFile(part.path, content.sha256, content.size, part.executable)
    return _without_folder(found) if upload.has_folder else found


def _content(part: UploadPart, before: int, sent_bytes: int) -> FileContent:
    """`before`: bytes of the parts before it. It is read only as far as the limits allow."""
    digest, size = hashlib.sha256(), 0
    for piece in part.pieces():
        digest.update(piece)
        size += len(piece)
        _require_room(before + size, sent_bytes)
    return FileContent(digest.hexdigest(), size)


def _is_ignored(path: str) -> bool:
    """A path that cannot be stored is refused, and not ignored."""
    return bool(IGNORED.match_file(path)) and ".." not in path.split("/")


def too_large() -> Message:
    """The limits, as the page says them too."""
    return Message(
        "At most %(files)s files and %(mib)s MiB can be sent on this page. tessera submit --sync "
        "sends more; data belongs in a volume",
        files=f"{MAX_TREE_ENTRIES:,}",
        mib=MAX_UPLOAD_BYTES // MIB,
    )


def _require_room(total: int, sent_bytes: int) -> None:
    if total > MAX_UPLOAD_BYTES:
        raise refused(too_large())
    if total > RATIO_BYTES and total > MAX_RATIO * sent_bytes:
        sentence = Message("The archive unpacks to more than %(n)s times its size", n=MAX_RATIO)
        raise refused(sentence)


def _without_folder(files: dict[str, TreeFile]) -> dict[str, TreeFile]:
    """A folder that holds everything is not part of the paths, as of one that was chosen."""
    tops = {path.partition("/")[0] for path in files}
    if len(tops) != 1 or not all("/" in path for path in files):
        return files
    return {
        path: TreeFile(path.partition("/")[2], file.sha256, file.size, file.executable)
        for path, file in files.items()
    }


def _store(project_id: int, upload: Upload, files: dict[str, TreeFile]) -> None:
    """Raises BytesMissing and what `chunk_append` raises."""
    lacking, missing = _lacking(project_id, files.values()), []
    for part in upload.parts(LeftOut()) if lacking else ():
        file = files.get(part.path)
        content = FileContent(file.sha256, file.size) if file else None
        if content is None or content not in lacking:
            continue
        if part.known_content:
            missing.append(part.path)
        else:
            lacking.remove(content)
            _store_content(project_id, content, part)
    if missing:
        raise BytesMissing(missing)


def _lacking(project_id: int, files: Iterable[TreeFile]) -> set[FileContent]:
    wanted = list({FileContent(file.sha256, file.size): None for file in files})
    lacking: set[FileContent] = set()
    for start in range(0, len(wanted), BATCH):
        some = tuple(wanted[start : start + BATCH])
        progress = files_received(project_id, some)
        lacking |= {one for one, has in zip(some, progress, strict=True) if not has.complete}
    return lacking


def _store_content(project_id: int, content: FileContent, part: UploadPart) -> None:
    """All its chunks in their order; those that have arrived before change nothing."""
    offset = 0
    for data in part.pieces(OBJECT_BYTES) if content.size else [b""]:
        row = _append(FileChunk(project_id, content, offset, data))
        offset += len(data)
    file_check(row)


def _append(chunk: FileChunk) -> StoredFile:
    """A part of the chunk may have arrived by another call."""
    try:
        return chunk_append(chunk)
    except WrongOffset as wrong:
        done = wrong.expected_offset - chunk.offset
        if not 0 < done < len(chunk.data):
            raise refused("The same files are being sent by another call. Try again") from wrong
        return chunk_append(replace(chunk, offset=wrong.expected_offset, data=chunk.data[done:]))
