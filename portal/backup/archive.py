"""The archive: a tar file with a manifest, whose every member is checked before it is used."""

import hashlib
import io
import json
import os
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

FORMAT = 1
MANIFEST = "manifest.json"
DATABASE = "database"
CHUNK_BYTES = 1 << 20


class BackupError(Exception):
    """A sentence for the operator: what is wrong, and what to do."""


@dataclass(slots=True)
class Manifest:
    """What an archive contains."""

    vendor: str
    """Of the database: `postgresql` or `sqlite`."""
    made_at: str
    migrations: dict[str, list[str]]
    """The applied migrations of each app."""
    key_prints: list[str]
    """Fingerprints of the secret keys that can read the database's sealed secrets."""
    counts: dict[str, int]
    """Rows of each table that people ask about."""
    missing: list[str] = field(default_factory=list)
    """Objects that the database names and the store did not have."""
    keys: list[str] = field(default_factory=list)
    """The secret keys themselves; only with `--with-keys`."""
    digests: dict[str, str] = field(default_factory=dict)
    """SHA-256 of every other member, in hex."""
    format: int = FORMAT


class ArchiveWriter:
    def __init__(self, tar: tarfile.TarFile) -> None:
        self._tar = tar
        self.digests: dict[str, str] = {}

    def add_file(self, name: str, path: Path) -> None:
        with path.open("rb") as file:
            self.digests[name] = hashlib.file_digest(file, "sha256").hexdigest()
        self._tar.add(path, arcname=name, filter=_plain)

    def add_bytes(self, name: str, data: bytes) -> None:
        self.digests[name] = hashlib.sha256(data).hexdigest()
        self._add(name, data)

    def finish(self, manifest: Manifest) -> None:
        """The manifest comes last: an archive that was cut short has none."""
        manifest.digests = self.digests
        self._add(MANIFEST, json.dumps(asdict(manifest), indent=1).encode())

    def _add(self, name: str, data: bytes) -> None:
        self._tar.addfile(_plain(_member(name, len(data))), io.BytesIO(data))


@contextmanager
def archive_writer(target: Path) -> Iterator[ArchiveWriter]:
    """A new archive of mode 0600, which gets its name when it is complete. Raises BackupError if
    there is one already."""
    if target.exists():
        raise BackupError(f"{target} exists already: give another name, or remove it")
    partial = target.with_name(f"{target.name}.partial")
    partial.unlink(missing_ok=True)
    descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as file:
            with tarfile.open(fileobj=file, mode="w") as tar:
                yield ArchiveWriter(tar)
            file.flush()
            os.fsync(file.fileno())
        partial.rename(target)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise


class ArchiveReader:
    def __init__(self, tar: tarfile.TarFile) -> None:
        self._tar = tar
        self._members = {member.name: member for member in tar.getmembers() if member.isfile()}
        self.manifest = self._manifest()
        self._check()

    def names(self, folder: str) -> list[str]:
        return [name for name in self.manifest.digests if name.startswith(f"{folder}/")]

    def read(self, name: str) -> bytes:
        return b"".join(self._chunks(name))

    def copy(self, name: str, target: Path) -> None:
        with target.open("wb") as file:
            file.writelines(self._chunks(name))

    def _manifest(self) -> Manifest:
        if MANIFEST not in self._members:
            raise BackupError("this is no complete archive of `manage.py backup`: no manifest")
        try:
            data = json.loads(b"".join(self._chunks(MANIFEST)))
            known = {one.name for one in fields(Manifest)}
            manifest = Manifest(**{key: data[key] for key in data.keys() & known})
        except (ValueError, TypeError, AttributeError) as error:
            raise BackupError(f"the manifest cannot be read: {error}") from error
        if manifest.format != FORMAT:
            raise BackupError(f"this archive has format {manifest.format}: update the portal first")
        return manifest

    def _check(self) -> None:
        """Every member is there, with its digest."""
        for name, wanted in self.manifest.digests.items():
            digest = hashlib.sha256()
            for chunk in self._chunks(name):
                digest.update(chunk)
            if digest.hexdigest() != wanted:
                raise BackupError(f"the archive is damaged: {name} has another digest")

    def _chunks(self, name: str) -> Iterator[bytes]:
        member = self._members.get(name)
        source = self._tar.extractfile(member) if member else None
        if source is None:
            raise BackupError(f"the archive is damaged: {name} is not in it")
        while chunk := source.read(CHUNK_BYTES):
            yield chunk


@contextmanager
def archive_reader(source: Path) -> Iterator[ArchiveReader]:
    """The archive, complete and undamaged. Raises BackupError."""
    try:
        with tarfile.open(source) as tar:
            yield ArchiveReader(tar)
    except (tarfile.TarError, EOFError, FileNotFoundError, IsADirectoryError) as error:
        raise BackupError(f"{source} cannot be read as an archive: {error}") from error


def _member(name: str, size: int) -> tarfile.TarInfo:
    member = tarfile.TarInfo(name)
    member.size = size
    return member


def _plain(member: tarfile.TarInfo) -> Any:
    """Without the owner, and for the owner alone."""
    member.uid = member.gid = 0
    member.uname = member.gname = ""
    member.mode = 0o600
    return member
