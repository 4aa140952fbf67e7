"""A bare repository with one commit: fetched, and read without a checkout.

A checkout would make links and run filters. Here each file is asked for by its hash.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import IO

from agents.contract.errors import ContractError
from agents.contract.file_transfer import MAX_TREE_ENTRIES, check_tree_path
from agents.contract.git_source import COMMIT_PATTERN, GitSource
from agents.git_code.program import GitEnded, GitProgram, GitTooLarge

# Entries of any kind that are looked at: a few small trees can name each other billions of times.
MAX_ENTRIES = 10 * MAX_TREE_ENTRIES
MAX_LISTING_BYTES = 64 << 20
PIECE_BYTES = 1 << 20
FILE_MODES = {b"100644": False, b"100664": False, b"100755": True}
DEFAULT_BRANCH = "HEAD"
# Of the repository itself, in spellings that some file system takes for it.
_OWN_FOLDER = re.compile(r"(?i)\.git[ .]*|git~1")
_ENTRY = re.compile(rb"([0-7]{6}) [a-z]+ ([0-9a-f]{40,64}) +([0-9]+|-)\t(.+)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class GitFile:
    """A regular file of a commit; `blob`: the hash of its content."""

    path: str
    blob: str
    size: int
    executable: bool


@dataclass(frozen=True, slots=True)
class GitListing:
    """The files of a commit; `left_out`: links, submodules, and files that no tree can hold."""

    files: tuple[GitFile, ...]
    left_out: int

    @property
    def total_bytes(self) -> int:
        return sum(file.size for file in self.files)


def fetch_commit(git: GitProgram, source: GitSource, commit: str) -> str:
    """The commit that was fetched: this one, or where it is empty what the source's ref means.

    Raises GitEnded, GitTooLong, GitTooLarge."""
    # Without a network it needs no more than its own folder.
    git.run("init", "--quiet", "--bare", "--template=", ".")
    if not commit:
        return _fetched(git, source, source.ref or DEFAULT_BRANCH)
    try:
        return _fetched(git, source, commit)
    except GitEnded:
        # Some servers give the ends of branches and tags alone.
        found = "" if source.is_commit else _fetched(git, source, source.ref or DEFAULT_BRANCH)
        if found == commit:
            return found
        raise


def read_listing(git: GitProgram, commit: str) -> GitListing:
    """Raises GitEnded, GitTooLong, GitTooLarge."""
    files, seen, left_out = [], 0, 0
    with git.reading("ls-tree", "-r", "-z", "-l", "--full-tree", commit) as output:
        for entry in _entries(output):
            seen += 1
            file = _file(entry)
            if file is None:
                left_out += 1
            else:
                files.append(file)
            if seen > MAX_ENTRIES or len(files) > MAX_TREE_ENTRIES:
                raise GitTooLarge
    return GitListing(tuple(files), left_out)


@dataclass(frozen=True, slots=True)
class ContentReader:
    """One process that gives content after content."""

    requests: IO[bytes]
    answers: IO[bytes]

    def pieces(self, file: GitFile) -> Iterator[bytes]:
        """All of them are to be read. Raises GitEnded, and EOFError where git ended."""
        self.requests.write(file.blob.encode() + b"\n")
        self.requests.flush()
        header = self.answers.readline(200)
        if not header:
            raise EOFError
        if header.split() != [file.blob.encode(), b"blob", str(file.size).encode()]:
            raise GitEnded("a file is not what the repository lists")
        left = file.size
        while left:
            piece = self.answers.read(min(left, PIECE_BYTES))
            if not piece:
                raise EOFError
            left -= len(piece)
            yield piece
        if self.answers.read(1) != b"\n":
            raise EOFError


@contextmanager
def content_reader(git: GitProgram) -> Iterator[ContentReader]:
    """Raises GitEnded, GitTooLong, GitTooLarge."""
    with git.talking("cat-file", "--batch") as (requests, answers):
        yield ContentReader(requests, answers)


def _fetched(git: GitProgram, source: GitSource, want: str) -> str:
    git.run(
        *("fetch", "--quiet", "--depth=1", "--no-tags", "--no-recurse-submodules"),
        *("--no-auto-maintenance", "--no-write-commit-graph", "--", source.url, want),
    )
    # Also of a tag that has a message.
    found = git.run("rev-parse", "--verify", "--quiet", "--end-of-options", "FETCH_HEAD^{commit}")
    if not re.fullmatch(COMMIT_PATTERN, found):
        raise GitEnded(f"{want} is no commit")
    return found


def _entries(output: IO[bytes]) -> Iterator[bytes]:
    rest, taken = b"", 0
    while piece := output.read(PIECE_BYTES):
        taken += len(piece)
        if taken > MAX_LISTING_BYTES:
            raise GitTooLarge
        *whole, rest = (rest + piece).split(b"\0")
        yield from whole


def _file(entry: bytes) -> GitFile | None:
    """None for what no tree can hold. Raises GitEnded."""
    match = _ENTRY.fullmatch(entry)
    if match is None:
        raise GitEnded("its list of files cannot be read")
    mode, blob, size, name = match.groups()
    path = name.decode("utf-8", "surrogateescape")
    if mode not in FILE_MODES or size == b"-" or not _is_possible(path):
        return None
    return GitFile(path, blob.decode(), int(size), FILE_MODES[mode])


def _is_possible(path: str) -> bool:
    try:
        check_tree_path(path)
    except ContractError:
        return False
    return not any(_OWN_FOLDER.fullmatch(part) for part in path.split("/"))


def with_environment(git: GitProgram, environment: dict[str, str]) -> GitProgram:
    """The same repository, with other settings."""
    return replace(git, environment=environment)
