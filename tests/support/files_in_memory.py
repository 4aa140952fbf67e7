"""The portal's side of files, in memory: it keeps what it gets, as the real one does."""

import hashlib
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field

from agents.contract.direct_transfer import (
    PART_BYTES,
    ContentPart,
    FetchPartsResponse,
    SendPartsResponse,
)
from agents.contract.errors import ContractError, ContractErrorCode
from agents.contract.file_transfer import (
    MAX_FILE_CHUNK_BYTES,
    FileContent,
    FileProgress,
    TreeCommitRequest,
    TreeFile,
    TreeKind,
    TreePage,
)
from agents.files.direct_store import DirectStore
from agents.files.file_calls import FilesRefused, PortalAway

# So long, a chunk waits for the one before it.
TURN_SECONDS = 1.0


@dataclass
class FilesInMemory:
    """`away`: so many calls find no portal, from now on. `page`: entries of a page of a tree,
    and parts of an answer."""

    contents: dict[str, bytes] = field(default_factory=dict)
    trees: dict[str, TreeCommitRequest] = field(default_factory=dict)
    away: int = 0
    refusal: str = ""
    page: int = 2
    puts: int = 0
    # Where large contents may go by themselves, and what is there, by the path of a URL.
    store: DirectStore | None = None
    bucket: dict[str, bytes] = field(default_factory=dict)
    urls: int = 0
    _taken: threading.Condition = field(default_factory=threading.Condition)

    def have(self, replica: str, files: Sequence[FileContent]) -> list[FileProgress]:
        self._answer()
        return [self._progress(content) for content in files]

    def put(self, replica: str, content: FileContent, offset: int, data: bytes) -> FileProgress:
        self._answer()
        assert len(data) <= MAX_FILE_CHUNK_BYTES

        def held() -> bytes:
            return self.contents.get(content.sha256, b"")

        with self._taken:
            self._taken.wait_for(lambda: offset <= len(held()), TURN_SECONDS)
            self.puts += 1
            if offset != len(held()):
                raise ContractError(
                    ContractErrorCode.OFFSET_MISMATCH, "", "", {"expected_offset": len(held())}
                )
            self.contents[content.sha256] = held() + data
            self._taken.notify_all()
            return self._progress(content)

    def commit(self, request: TreeCommitRequest) -> str:
        self._answer()
        for file in request.files:
            assert self._progress(FileContent(file.sha256, file.size)).complete, file.path
        name = f"tree-{len(self.trees) + 1}"
        self.trees[name] = request
        return name

    def tree(self, replica: str, tree: str, after: int) -> TreePage:
        self._answer()
        if tree == TreeKind.CHECKPOINT:
            saved = [k for k, one in self.trees.items() if one.kind is TreeKind.CHECKPOINT]
            tree = saved[-1] if saved else ""
        if tree not in self.trees:
            raise ContractError(ContractErrorCode.TREE_UNKNOWN, "no such tree")
        found = self.trees[tree]
        some = found.files[after : after + self.page]
        size = sum(file.size for file in found.files)
        return TreePage(tree, found.kind, some, len(found.files), size, found.step)

    def get(self, replica: str, sha256: str, offset: int) -> bytes:
        self._answer()
        return self.contents[sha256][offset : offset + MAX_FILE_CHUNK_BYTES]

    def parts_to_send(self, replica: str, content: FileContent, end: int) -> SendPartsResponse:
        self._answer()
        received = len(self.contents[content.sha256])
        while received < end and (data := self.bucket.get(f"/{content.sha256}/{received}")):
            self.contents[content.sha256] += data
            received += len(data)
        progress = self._progress(content)
        parts = self._parts(content.sha256, received, content.size)
        return SendPartsResponse(progress.received, progress.complete, parts)

    def parts_to_fetch(self, replica: str, sha256: str, offset: int) -> FetchPartsResponse:
        self._answer()
        return FetchPartsResponse(self._parts(sha256, offset, len(self.contents[sha256])))

    def _parts(self, sha256: str, offset: int, size: int) -> tuple[ContentPart, ...]:
        """Each URL differs from all before."""
        self.urls += 1
        return tuple(
            ContentPart(
                at, min(PART_BYTES, size - at), f"https://store/{sha256}/{at}?signed={self.urls}"
            )
            for at in range(offset, size, PART_BYTES)[: self.page]
        )

    def has_stored(self, contents: dict[str, bytes], kind: TreeKind = TreeKind.CODE) -> str:
        """A tree of these, by path."""
        files = []
        for path, data in sorted(contents.items()):
            name = hashlib.sha256(data).hexdigest()
            self.contents[name] = data
            files.append(TreeFile(path, name, len(data), executable=path.endswith(".sh")))
        return self.commit(TreeCommitRequest("", kind, tuple(files)))

    def read(self, tree: str) -> dict[str, bytes]:
        return {file.path: self.contents[file.sha256] for file in self.trees[tree].files}

    def _answer(self) -> None:
        if self.refusal:
            raise FilesRefused(self.refusal)
        if self.away:
            self.away -= 1
            raise PortalAway("nobody there")

    def _progress(self, content: FileContent) -> FileProgress:
        held = self.contents.get(content.sha256)
        is_complete = (
            held is not None
            and len(held) == content.size
            and hashlib.sha256(held).hexdigest() == content.sha256
        )
        return FileProgress(content.sha256, len(held or b""), is_complete)
