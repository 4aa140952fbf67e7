"""Downloads one file of a tree: goes on where it was cut, and compares the SHA-256 at the end."""

import hashlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import IO

import httpx

from portal.cli.client import Busy, Client, api_path
from portal.cli.exit_codes import CommandFailed, ExitCode
from portal.cli.job_files import FileTarget

# Cuts without a byte in between, after which a person should know.
MAX_FAILURES = 6
PIECE_BYTES = 1 << 20
ADDED_MODE = 0o111

OnBytes = Callable[[int], object]


def download(client: Client, tree: str, file: FileTarget, on_bytes: OnBytes) -> bool:
    """Write the file; False if it was there already. `on_bytes`: each piece's size, or what was
    there before. Raises CommandFailed; what has arrived stays beside it for the next time."""
    if _is_there(file):
        on_bytes(file.size)
        return False
    part = file.target.with_name(f".{file.target.name[:200]}.{file.sha256[:16]}.part")
    try:
        with _opened(part) as opened:
            digest = _received(client, tree, file, opened, on_bytes)
        if digest != file.sha256:
            part.unlink()
            sentence = f"What arrived of {file.path} has another SHA-256"
            raise CommandFailed("file_changed", sentence, "the same command again")
        if file.executable:
            part.chmod(part.stat().st_mode | ADDED_MODE)
        part.replace(file.target)
    except OSError as error:
        sentence = f"{file.target} cannot be written: {error.strerror}"
        raise CommandFailed("not_writable", sentence, "", ExitCode.CONFLICT) from error
    return True


def _is_there(file: FileTarget) -> bool:
    target = file.target
    if target.is_symlink() or not target.is_file() or target.stat().st_size != file.size:
        return False
    with target.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest() == file.sha256


def _opened(part: Path) -> IO[bytes]:
    """For reading and writing, and not through a link."""
    flags = os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)
    return os.fdopen(os.open(part, flags, 0o666), "r+b")


def _received(
    client: Client, tree: str, file: FileTarget, opened: IO[bytes], on_bytes: OnBytes
) -> str:
    """The SHA-256 of the whole file, once it is there."""
    digest = hashlib.sha256()
    while piece := opened.read(PIECE_BYTES):
        digest.update(piece)
    if opened.tell() > file.size:
        opened.truncate(0)
        opened.seek(0)
        digest = hashlib.sha256()
    on_bytes(opened.tell())
    failures = 0
    while opened.tell() < file.size:
        before = opened.tell()
        try:
            digest = _read_on(client, tree, file, opened, digest, on_bytes)
        except Busy as busy:
            client.pause(busy.seconds)
        except httpx.TransportError as error:
            client.pause(2.0**failures / 4)
            failures = 0 if opened.tell() > before else failures + 1
            if failures >= MAX_FAILURES:
                sentence = f"{client.access.url} cannot be reached: {error}"
                raise CommandFailed("unreachable", sentence, "the same command again") from error
    return digest.hexdigest()


def _read_on(
    client: Client,
    tree: str,
    file: FileTarget,
    opened: IO[bytes],
    digest: "hashlib._Hash",
    on_bytes: OnBytes,
) -> "hashlib._Hash":
    offset = opened.tell()
    with client.download(
        api_path("trees", tree, "content"), offset=offset, path=file.path
    ) as answer:
        if offset and answer.status_code != httpx.codes.PARTIAL_CONTENT:
            on_bytes(-offset)
            opened.seek(0)
            opened.truncate()
            digest = hashlib.sha256()
        for piece in answer.iter_bytes():
            if opened.tell() + len(piece) > file.size:
                sentence = f"The portal sent more than the {file.size} bytes of {file.path}"
                raise CommandFailed("file_changed", sentence, "the same command again")
            opened.write(piece)
            digest.update(piece)
            on_bytes(len(piece))
    return digest
