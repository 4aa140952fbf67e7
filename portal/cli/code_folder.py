"""The files of a folder that `tessera submit --sync` sends: what is ignored, and the limits.

A folder's `.gitignore` and then its `.tesseraignore` say what is left out, in git's own patterns;
those of a deeper folder count more. A `.tesseraignore` can take in again what git ignores.
"""

import hashlib
import os
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from pathspec import GitIgnoreSpec

from portal.cli.exit_codes import CommandFailed, ExitCode

IGNORE_FILES = (".gitignore", ".tesseraignore")
# Left out unless an ignore file says otherwise: what tools make, and what git keeps.
ALWAYS_IGNORED = (
    *(".git/", ".hg/", ".svn/", ".jj/", "__MACOSX/"),
    *("__pycache__/", "*.pyc", ".venv/", "node_modules/", ".ipynb_checkpoints/"),
    *(".mypy_cache/", ".pytest_cache/", ".ruff_cache/", ".DS_Store"),
)
# As the portal has them.
MAX_FILES, MAX_PATH_BYTES = 10_000, 1_024
MAX_FOLDER_BYTES = 1 << 30
HINT = "tessera submit --help"


@dataclass(frozen=True, slots=True)
class CodeFile:
    """One file of the folder. `path` is relative, with slashes."""

    path: str
    source: Path
    size: int
    sha256: str
    executable: bool


@dataclass(frozen=True, slots=True)
class CodeFolder:
    """What is sent, by path; `left_out` are links and special files, which are not."""

    files: tuple[CodeFile, ...]
    left_out: tuple[str, ...]

    @property
    def total_bytes(self) -> int:
        return sum(each.size for each in self.files)


@dataclass(frozen=True, slots=True)
class _Ignore:
    """The patterns of one folder, which is `prefix` of paths below it."""

    prefix: str
    spec: GitIgnoreSpec

    def verdict(self, path: str) -> bool | None:
        """Whether the path is ignored; None if no pattern says so or otherwise."""
        return self.spec.check_file(path.removeprefix(self.prefix)).include


def read_code_folder(folder: Path) -> CodeFolder:
    """The folder's files with their SHA-256. Raises CommandFailed for a folder that cannot be sent:
    absent, empty, too large, or with a name that no tree may have."""
    if not folder.is_dir():
        raise _refused("folder_absent", f"{folder} is not a folder")
    left_out: list[str] = []
    found = list(
        _walk(folder, "", [_Ignore("", GitIgnoreSpec.from_lines(ALWAYS_IGNORED))], left_out)
    )
    total = sum(status.st_size for _, _, status in found)
    if not found:
        raise _refused("folder_empty", f"{folder} has no files to send, or all are ignored")
    if len(found) > MAX_FILES or total > MAX_FOLDER_BYTES:
        raise _refused("folder_too_large", _too_large(folder, found, total))
    files = tuple(
        _read(path, source) for path, source, _ in sorted(found, key=lambda each: each[0])
    )
    return CodeFolder(files, tuple(sorted(left_out)))


FileOnDisk = tuple[str, Path, os.stat_result]


def _walk(
    folder: Path, prefix: str, ignores: Sequence[_Ignore], left_out: list[str]
) -> Iterator[FileOnDisk]:
    """The files that are not ignored. A folder that is ignored is not opened, as in git."""
    here = [*ignores, *_own_ignores(folder, prefix)]
    try:
        entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
    except OSError as error:
        raise _refused("file_unreadable", f"{folder} cannot be read: {error.strerror}") from error
    for entry in entries:
        path, is_folder = f"{prefix}{entry.name}", entry.is_dir(follow_symlinks=False)
        if _is_ignored(f"{path}/" if is_folder else path, here):
            continue
        if is_folder:
            yield from _walk(Path(entry.path), f"{path}/", here, left_out)
            continue
        status = entry.stat(follow_symlinks=False)
        if not stat.S_ISREG(status.st_mode):
            left_out.append(path)
            continue
        if problem := _name_problem(path):
            raise _refused("name_invalid", f"{path[:64]!a} {problem}: rename or ignore it")
        yield path, Path(entry.path), status


def _name_problem(path: str) -> str:
    try:
        is_long = len(path.encode()) > MAX_PATH_BYTES
    except UnicodeEncodeError:
        return "has a name that is not UTF-8"
    return f"is longer than {MAX_PATH_BYTES} bytes" if is_long else ""


def _own_ignores(folder: Path, prefix: str) -> Iterator[_Ignore]:
    for name in IGNORE_FILES:
        file = folder / name
        if file.is_file() and not file.is_symlink():
            try:
                spec = GitIgnoreSpec.from_lines(file.read_text("utf-8").splitlines())
            except (OSError, ValueError) as error:
                raise _refused("ignore_file_invalid", f"{file} cannot be used: {error}") from error
            yield _Ignore(prefix, spec)


def _is_ignored(path: str, ignores: Sequence[_Ignore]) -> bool:
    """The last file of patterns that says something about the path decides."""
    verdicts = (each.verdict(path) for each in reversed(ignores))
    return next((verdict for verdict in verdicts if verdict is not None), False)


def _read(path: str, source: Path) -> CodeFile:
    try:
        with source.open("rb") as file:
            status = os.fstat(file.fileno())
            digest = hashlib.file_digest(file, "sha256").hexdigest()
            size = file.tell()
    except OSError as error:
        raise _refused("file_unreadable", f"{source} cannot be read: {error.strerror}") from error
    return CodeFile(path, source, size, digest, bool(status.st_mode & stat.S_IXUSR))


def _too_large(folder: Path, found: Sequence[FileOnDisk], total: int) -> str:
    """Says what to do: what takes the room is mostly a folder that nobody meant to send."""
    tops: dict[str, int] = {}
    for path, _, status in found:
        top = path.partition("/")[0]
        tops[top] = tops.get(top, 0) + status.st_size
    largest = sorted(tops, key=lambda top: -tops[top])[:3]
    parts = ", ".join(f"{top} {_mib(tops[top])}" for top in largest)
    return (
        f"{folder} has {len(found):,} files and {_mib(total)}; at most {MAX_FILES:,} files"
        f" and {_mib(MAX_FOLDER_BYTES)} can be sent. Largest: {parts}. Name what the job does not"
        " need in .tesseraignore; data belongs in a volume"
    )


def _mib(size: int) -> str:
    return f"{size / (1 << 20):,.1f} MiB"


def _refused(code: str, sentence: str) -> CommandFailed:
    return CommandFailed(code, sentence, HINT, ExitCode.USAGE)
