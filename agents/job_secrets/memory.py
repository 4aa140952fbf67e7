"""Folders of secrets in memory: one for each replica, on a file system that has no disk."""

import os
import shutil
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from agents.contract.job_secrets import SecretForm, SecretValue
from agents.host.private_files import PRIVATE_FILE, PRIVATE_FOLDER

MEMORY_FILE_SYSTEMS = frozenset(("tmpfs", "ramfs"))
CANDIDATES = (Path("/run"), Path("/dev/shm"))  # noqa: S108 - the folder is checked
MOUNTS = Path("/proc/self/mounts")
# The folder above has no access for others, so these are for the job alone, whatever its uid.
READABLE_FOLDER, READABLE_FILE = 0o755, 0o444
FILES, VARIABLES, SCRIPT = "files", "variables", "with-environment"
# For the agent alone, whatever the job's uid: no job is given this folder.
OWN = "git"
FOLDERS = {SecretForm.FILE: FILES, SecretForm.ENV: VARIABLES, SecretForm.GIT: OWN}


class NoMemoryFolder(Exception):
    """The node has no place for secrets but a disk."""


@dataclass(frozen=True, slots=True)
class SecretMemory:
    """`root`: a folder in memory, for the agent alone. `marks`: a folder on disk with the names of
    replicas whose logs must be redacted, also after a restart of the machine emptied `root`."""

    root: Path
    marks: Path

    def write(self, replica: str, values: Iterable[SecretValue], forms: Mapping[str, str]) -> None:
        """All of them, or none."""
        self._prepare()
        self._mark(replica).touch()
        part = self.root / f"{replica}.part"
        shutil.rmtree(part, ignore_errors=True)
        exports = []
        for folder in (part, part / FILES, part / VARIABLES):
            folder.mkdir()
            folder.chmod(READABLE_FOLDER)
        (part / OWN).mkdir(mode=PRIVATE_FOLDER)
        for secret in values:
            form = SecretForm(forms.get(secret.name, SecretForm.FILE))
            path = part / FOLDERS[form] / secret.name
            _write(path, secret.value)
            if form is SecretForm.GIT:
                path.chmod(PRIVATE_FILE)
            if form is SecretForm.ENV:
                exports.append(f"export {secret.name}={_quoted(secret.value)}\n")
        _write(part / SCRIPT, "".join(exports) + 'exec "$@"\n')
        shutil.rmtree(self.folder(replica), ignore_errors=True)
        part.rename(self.folder(replica))

    def folder(self, replica: str) -> Path:
        return self.root / replica

    def has(self, replica: str) -> bool:
        return self.folder(replica).is_dir()

    def values(self, replica: str) -> list[str]:
        found = (self.folder(replica) / kind for kind in FOLDERS.values())
        return [_read(path) for folder in found if folder.is_dir() for path in folder.iterdir()]

    def own_file(self, replica: str, name: str) -> Path:
        """Of a secret that its node reads and the job does not."""
        return self.folder(replica) / OWN / name

    def marked(self) -> set[str]:
        """Replicas with secrets, whether or not their values are still here."""
        return {path.name for path in self.marks.iterdir()} if self.marks.is_dir() else set()

    def remove(self, replica: str) -> None:
        for name in (replica, f"{replica}.part"):
            shutil.rmtree(self.root / name, ignore_errors=True)
        self._mark(replica).unlink(missing_ok=True)

    def _mark(self, replica: str) -> Path:
        return self.marks / replica

    def _prepare(self) -> None:
        """Raises NoMemoryFolder if it is no folder of ours, or not in memory."""
        self.marks.mkdir(mode=PRIVATE_FOLDER, parents=True, exist_ok=True)
        self.root.mkdir(mode=PRIVATE_FOLDER, exist_ok=True)
        found = self.root.lstat()
        is_ours = found.st_uid == os.geteuid() and not found.st_mode & 0o077
        if self.root.is_symlink() or not is_ours:
            raise NoMemoryFolder(f"others can write to {self.root}: remove it")
        if file_system(self.root) not in MEMORY_FILE_SYSTEMS:
            raise NoMemoryFolder(f"{self.root} is not in memory: mount a tmpfs there")


def secret_memory(var: Path) -> SecretMemory:
    """Where this agent keeps secrets: in the first of the usual places that is in memory."""
    fit = (path for path in CANDIDATES if file_system(path) in MEMORY_FILE_SYSTEMS)
    parent = next((path for path in fit if os.access(path, os.W_OK)), CANDIDATES[-1])
    key = sha256(str(var.absolute()).encode()).hexdigest()[:16]
    return SecretMemory(parent / f"tessera-secrets-{os.geteuid()}-{key}", var / "secrets")


def file_system(path: Path, mounts: Path = MOUNTS) -> str:
    """The kind of file system that a path is on, as the kernel calls it; "" if unknown."""
    best, kind = "", ""
    for line in mounts.read_text("utf-8", "replace").splitlines():
        _, point, found, *_ = line.split(" ")
        is_above = path == Path(point) or Path(point) in path.parents
        if is_above and len(point) >= len(best):
            best, kind = point, found
    return kind


def _write(path: Path, text: str) -> None:
    path.write_text(text, "utf-8", newline="")
    path.chmod(READABLE_FILE)


def _read(path: Path) -> str:
    with path.open(encoding="utf-8", newline="") as file:
        return file.read()


def _quoted(value: str) -> str:
    """As a shell's word, with all of its lines and blanks."""
    return "'" + value.replace("'", "'\\''") + "'"
