"""The images that the Dockerfile and docker-compose.yml begin with, made of this machine's programs
and imported: the tests' engine reaches no registry.

They have what ours use of them: their names, users, folders and entry points, and a shell. Each is
made once for a version of this file, and kept below `var/cache`.
"""

from __future__ import annotations

import hashlib
import io
import os
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import docker
import pip

from docs.examples import build_image as example
from docs.examples.build_image import Entry
from tests.environment import debian

ROOT = Path(__file__).resolve().parents[2]
CACHE = ROOT / "var" / "cache"
LOCK = ROOT / "requirements" / "portal.lock"
WHEELS = "wheels"
SHELL = {
    *("sh", "cat", "chmod", "chown", "cp", "date", "env", "find", "grep", "id", "install", "ls"),
    *("mkdir", "mktemp", "nologin", "rm", "sed", "setpriv", "sleep", "stat", "test", "touch"),
    *("true", "useradd"),
}
FOLDERS = ("tmp", "etc", "proc", "var/lib", "var/log", "run", "usr/sbin", "srv")
# Neither Python nor Debian's PostgreSQL has time zones of its own.
ZONES = Path("/usr/share/zoneinfo")
# What wheels for Linux expect of any machine (PEP 599), beyond what Python itself needs.
LIBRARIES = (
    *("libstdc++.so.6", "libgcc_s.so.1", "libz.so.1", "libm.so.6", "libdl.so.2", "librt.so.1"),
    *("libpthread.so.0", "libutil.so.1", "libresolv.so.2"),
)
USERS = (("root", 0), ("redis", 999), ("postgres", 998), ("nginx", 101), ("nobody", 65534))
PIP = b"""#!/usr/local/bin/python
import sys
from pip._internal.cli.main import main
sys.exit(main())
"""
# What the entry point of the official image does for the variables that docker-compose.yml sets.
POSTGRES = b"""#!/bin/sh
set -e
as_postgres="setpriv --reuid=postgres --regid=postgres --clear-groups"
if [ ! -s "$PGDATA/PG_VERSION" ]; then
    install -d -o postgres -g postgres -m 0700 "$PGDATA"
    install -o postgres -g postgres -m 0600 /dev/null /tmp/password
    printf %s "$POSTGRES_PASSWORD" > /tmp/password
    $as_postgres initdb --pgdata "$PGDATA" --username "$POSTGRES_USER" --pwfile /tmp/password \\
        --auth scram-sha-256 --encoding UTF8 --locale C
    rm /tmp/password
    printf 'CREATE DATABASE "%s";' "$POSTGRES_DB" \\
        | $as_postgres postgres --single -D "$PGDATA" template1 > /dev/null
    echo 'host all all all scram-sha-256' >> "$PGDATA/pg_hba.conf"
fi
exec $as_postgres "$@"
"""


@dataclass(frozen=True)
class BaseImage:
    """`programs`: paths on this machine; each is in /usr/bin. `folders`: (name in the image, folder
    on this machine). `files`: contents by name. `open_folders`: those where everyone may write.
    `changes`: lines of a Dockerfile."""

    name: str
    programs: tuple[Path, ...] = ()
    folders: tuple[tuple[str, Path], ...] = ()
    files: dict[str, bytes] = field(default_factory=dict)
    open_folders: tuple[str, ...] = ()
    changes: tuple[str, ...] = ()

    def layer(self) -> Path:
        """The tar file of its root file system, made if it is not in the cache."""
        stem = self.name.replace(":", "-")
        path = CACHE / f"base-{stem}-{self._fingerprint()}.tar"
        if not path.exists():
            CACHE.mkdir(parents=True, exist_ok=True)
            partial = path.with_suffix(f".{os.getpid()}.partial")
            with tarfile.open(partial, "w") as tar:
                self._write(tar)
            for old in CACHE.glob(f"base-{stem}-*.tar"):
                old.unlink(missing_ok=True)
            partial.rename(path)
        return path

    def _fingerprint(self) -> str:
        digest = hashlib.sha256(Path(__file__).read_bytes() + LOCK.read_bytes())
        digest.update(f"{sys.version} {self.programs} {self.files}".encode())
        return digest.hexdigest()[:16]

    def _write(self, tar: tarfile.TarFile) -> None:
        programs = [*shell_programs(), *self.programs]
        entries: list[Entry] = [(f"usr/bin/{path.name}", path.resolve()) for path in programs]
        for name, folder in self.folders:
            entries += files_below(name, folder)
        binaries = [source for name, source in entries if is_binary(name, source)]
        # By name: two of them may bring the same library.
        entries = list(dict([*entries, *example.shared_objects(binaries)]).items())
        names = {name for name, _ in entries} | set(self.files)
        example.add_folders(tar, names | {f"{folder}/x" for folder in FOLDERS})
        for name in self.open_folders:
            add_open_folder(tar, name)
        example.add_link(tar, "bin", "usr/bin")
        example.add_link(tar, "sbin", "usr/sbin")
        for name, source in entries:
            tar.add(source, name, recursive=False, filter=example.owned_by_root)
        for name, content in (accounts() | self.files).items():
            add_file(tar, name, content)
        if any(name.startswith("usr/local/bin/python3.") for name, _ in entries):
            for link in ("python", "python3"):
                example.add_link(tar, f"usr/local/bin/{link}", example.VERSION)


def base_images() -> list[BaseImage]:
    """Those of the Dockerfile and of docker-compose.yml."""
    return [python_image(), postgres_image(), redis_image(), nginx_image()]


def import_base_images(client: docker.DockerClient) -> None:
    for image in base_images():
        import_image(client, image)


def import_image(client: docker.DockerClient, image: BaseImage) -> str:
    """Its name."""
    name, tag = image.name.split(":")
    client.api.import_image_from_file(
        str(image.layer()), repository=name, tag=tag, changes=list(image.changes)
    )
    return image.name


def python_image() -> BaseImage:
    """With the wheels of requirements/portal.lock, which pip takes instead of an index."""
    lib, interpreter = f"usr/local/lib/{example.VERSION}", Path(sys.executable).resolve()
    return BaseImage(
        "python:3.11-slim",
        folders=(
            (f"usr/local/bin/{example.VERSION}", interpreter),
            (lib, example.STDLIB),
            (f"{lib}/site-packages/pip", Path(pip.__file__).parent),
            (WHEELS, wheels()),
            ("usr/share/zoneinfo", ZONES),
            *((f"lib/{name}", library(name)) for name in LIBRARIES),
        ),
        files={"usr/local/bin/pip": PIP},
        changes=(
            "ENV PATH=/usr/local/bin:/usr/local/sbin:/usr/sbin:/usr/bin:/sbin:/bin",
            f"ENV PIP_NO_INDEX=1 PIP_FIND_LINKS=/{WHEELS}",
            'CMD ["python3"]',
        ),
    )


def postgres_image() -> BaseImage:
    program = debian.POSTGRES.path()
    assert program
    folder = Path(program).parent
    names = ("initdb", "postgres", "pg_isready", "psql", "pg_dump", "pg_restore")
    # The server looks for its files by its own place, as it does on this machine.
    share = Path("/usr/share/postgresql") / folder.parent.name
    return BaseImage(
        "postgres:15",
        folders=(
            *((f"{folder}/{name}".lstrip("/"), folder / name) for name in names),
            (f"{folder.parent}/lib".lstrip("/"), folder.parent / "lib"),
            (str(share).lstrip("/"), share),
            ("usr/share/zoneinfo", ZONES),
        ),
        files={"usr/local/bin/docker-entrypoint.sh": POSTGRES, "var/lib/postgresql/.keep": b""},
        changes=(
            f"ENV PATH={folder}:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
            "ENV PGDATA=/var/lib/postgresql/data",
            'ENTRYPOINT ["docker-entrypoint.sh"]',
            'CMD ["postgres", "-c", "listen_addresses=*", "-c", "unix_socket_directories=/tmp"]',
        ),
    )


def redis_image() -> BaseImage:
    return BaseImage(
        "redis:7",
        programs=(program_path("redis-server"), program_path("redis-cli")),
        changes=("WORKDIR /var/lib", 'CMD ["redis-server"]'),
    )


def nginx_image() -> BaseImage:
    return BaseImage(
        "nginx:1",
        programs=(program_path("nginx"), program_path("curl")),
        changes=('CMD ["nginx", "-g", "daemon off;"]',),
    )


def wheels() -> Path:
    """A folder with the wheels of the lock file, from the index that pip is set up for."""
    digest = hashlib.sha256(LOCK.read_bytes()).hexdigest()[:16]
    folder = CACHE / f"{WHEELS}-{digest}"
    if not folder.exists():
        partial = folder.with_suffix(f".{os.getpid()}.partial")
        options = ("--quiet", "--disable-pip-version-check", "--require-hashes")
        command = [sys.executable, "-m", "pip", "download", *options, "--dest", str(partial)]
        subprocess.run([*command, "--requirement", str(LOCK)], check=True, capture_output=True)
        for old in CACHE.glob(f"{WHEELS}-*"):
            if old != partial:
                shutil.rmtree(old)
        partial.rename(folder)
    return folder


def program_path(program: str) -> Path:
    path = shutil.which(program, path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")
    assert path, f"{program} is not installed"
    return Path(path)


def library(name: str) -> Path:
    """A shared library of this machine."""
    listed = subprocess.run(["/sbin/ldconfig", "-p"], capture_output=True, text=True, check=True)
    paths = [line.split(" => ")[1] for line in listed.stdout.splitlines() if f"\t{name} " in line]
    assert paths, f"{name} is not installed"
    return Path(paths[0])


def shell_programs() -> list[Path]:
    return [program_path(name) for name in sorted(SHELL)]


def files_below(name: str, folder: Path) -> Iterator[Entry]:
    """The files of a folder by their names in the image; `folder` may be one file."""
    if folder.is_file():
        yield name, folder.resolve()
        return
    for source in sorted(folder.rglob("*")):
        parts = source.relative_to(folder).parts
        is_left_out = bool(LEFT_OUT & set(parts)) or source.name.startswith(LEFT_OUT_PREFIXES)
        if source.is_file() and not is_left_out:
            yield f"{name}/{'/'.join(parts)}", source.resolve()


# pip has packages of its own in `distutils` and the like, so only what is large and not used.
LEFT_OUT = {"site-packages", "dist-packages", "test", "idlelib", "bitcode", "man", "__pycache__"}
LEFT_OUT_PREFIXES = ("config-", "_tkinter.", "llvmjit")


def is_binary(name: str, source: Path) -> bool:
    return name.endswith(".so") or (".so" not in name and os.access(source, os.X_OK))


def accounts() -> dict[str, bytes]:
    """The files that tell users, and those that useradd reads."""
    passwd = "".join(f"{name}:x:{uid}:{uid}::/:/bin/sh\n" for name, uid in USERS)
    group = "".join(f"{name}:x:{uid}:\n" for name, uid in USERS)
    shadow = "".join(f"{name}:*:19000:0:99999:7:::\n" for name, _ in USERS)
    return {
        "etc/passwd": passwd.encode(),
        "etc/group": group.encode(),
        "etc/shadow": shadow.encode(),
        "etc/gshadow": "".join(f"{name}:*::\n" for name, _ in USERS).encode(),
        "etc/login.defs": b"USERGROUPS_ENAB yes\nUID_MAX 60000\nGID_MAX 60000\n",
        "etc/nsswitch.conf": b"passwd: files\ngroup: files\nshadow: files\nhosts: files dns\n",
    }


def add_open_folder(tar: tarfile.TarFile, name: str) -> None:
    folder = tarfile.TarInfo(name)
    folder.type, folder.mode = tarfile.DIRTYPE, 0o777
    tar.addfile(folder)


def add_file(tar: tarfile.TarFile, name: str, content: bytes) -> None:
    entry = tarfile.TarInfo(name)
    entry.size = len(content)
    entry.mode = 0o755 if content.startswith(b"#!") else 0o644
    tar.addfile(entry, io.BytesIO(content))
