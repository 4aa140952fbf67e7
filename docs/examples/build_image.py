"""Builds `tessera-example:latest` without a registry, from this machine's Python and the examples.

Usage: python docs/examples/build_image.py [unix:///var/run/docker.sock]
The layer is cached in `cache` of the folder TESSERA_VAR, by default `var`. An engine that already
has it is left as it is.
"""

from __future__ import annotations

import hashlib
import io
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
from collections.abc import Iterator
from pathlib import Path

import docker
from docker.errors import ImageNotFound

IMAGE = "tessera-example:latest"
FINGERPRINT = "org.tessera.fingerprint"
EXAMPLES = Path(__file__).resolve().parent
VAR = Path(os.environ.get("TESSERA_VAR") or EXAMPLES.parent.parent / "var")
CACHE = VAR / "cache"
DEFAULT_ENGINE = "unix:///var/run/docker.sock"

VERSION = f"python{sys.version_info.major}.{sys.version_info.minor}"
STDLIB = Path(sysconfig.get_path("stdlib"))
# The interpreter looks for its library next to itself, so both are copied below this folder.
PREFIX = "usr/local"
LEFT_OUT = {
    *("test", "tests", "idlelib", "tkinter", "turtledemo", "ensurepip", "lib2to3", "pydoc_data"),
    *("site-packages", "dist-packages"),
}
LEFT_OUT_PREFIXES = ("config-", "_tkinter.", "_test", "_ctypes_test.", "xxlimited")
SHELL_WORDS = ("sh", "cat", "echo", "env", "ls", "mkdir", "printf", "sleep", "true", "false", "id")
PASSWD = b"root:x:0:0:root:/:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/sh\n"
CHANGES = [
    f"ENV PATH=/{PREFIX}/bin:/usr/bin:/bin",
    "ENV PYTHONUNBUFFERED=1",
    "WORKDIR /examples",
    'CMD ["python"]',
]
Entry = tuple[str, Path]


def build_image(base_url: str) -> str:
    """Import the image into the engine if it is missing, and return its name."""
    fingerprint = image_fingerprint()
    client = docker.DockerClient(base_url=base_url, timeout=120)
    try:
        if fingerprint not in engine_fingerprint(client):
            layer = cached_layer(fingerprint)
            label = f"LABEL {FINGERPRINT}={fingerprint}"
            name, tag = IMAGE.split(":")
            client.api.import_image_from_file(
                str(layer), repository=name, tag=tag, changes=[*CHANGES, label]
            )
    finally:
        client.close()
    return IMAGE


def engine_fingerprint(client: docker.DockerClient) -> str:
    """The fingerprint of the engine's image; empty if it has none."""
    try:
        return str(client.images.get(IMAGE).labels.get(FINGERPRINT, ""))
    except ImageNotFound:
        return ""


def image_fingerprint() -> str:
    """A digest that changes with this program, the examples and the machine's Python."""
    digest = hashlib.sha256(f"{sys.version} {shutil.which('busybox')}".encode())
    for program in sorted(EXAMPLES.glob("*.py")):
        digest.update(program.name.encode() + program.read_bytes())
    return digest.hexdigest()[:16]


def cached_layer(fingerprint: str) -> Path:
    """The tar file of the root file system, made if it is not in the cache."""
    layer = CACHE / f"example-{fingerprint}.tar"
    if layer.exists():
        return layer
    CACHE.mkdir(parents=True, exist_ok=True)
    partial = layer.with_suffix(f".{id(layer)}.partial")
    with tarfile.open(partial, "w") as tar:
        write_root(tar)
    for old in CACHE.glob("example-*.tar"):
        old.unlink(missing_ok=True)
    return partial.rename(layer)


def write_root(tar: tarfile.TarFile) -> None:
    """Add the interpreter, its library, a shell, the examples, and the shared objects they need."""
    interpreter = Path(sys.executable).resolve()
    entries = [(f"{PREFIX}/bin/{VERSION}", interpreter), *stdlib_entries(), *example_entries()]
    busybox = shutil.which("busybox")
    if busybox:
        entries.append(("bin/busybox", Path(busybox).resolve()))
    entries += shared_objects([source for name, source in entries if is_binary(name)])
    add_folders(tar, {name for name, _ in entries} | {"tmp/x", "etc/passwd", "proc/x", "bin/sh"})
    for name, source in entries:
        tar.add(source, name, recursive=False, filter=owned_by_root)
    for link in ("python", "python3"):
        add_link(tar, f"{PREFIX}/bin/{link}", VERSION)
    for word in SHELL_WORDS if busybox else ():
        add_link(tar, f"bin/{word}", "busybox")
    add_bytes(tar, "etc/passwd", PASSWD)
    add_bytes(tar, "etc/nsswitch.conf", b"hosts: files dns\n")


def stdlib_entries() -> Iterator[Entry]:
    """The standard library without its tests, windows and third-party packages."""
    for source in sorted(STDLIB.rglob("*")):
        parts = source.relative_to(STDLIB).parts
        left_out = LEFT_OUT & set(parts) or any(p.startswith(LEFT_OUT_PREFIXES) for p in parts)
        if (
            source.is_file()
            and not left_out
            and not source.name.endswith((".opt-1.pyc", ".opt-2.pyc"))
        ):
            yield f"{PREFIX}/lib/{VERSION}/{'/'.join(parts)}", source.resolve()


def example_entries() -> Iterator[Entry]:
    for program in sorted(EXAMPLES.glob("*.py")):
        yield f"examples/{program.name}", program


def is_binary(name: str) -> bool:
    return name.endswith(".so") or name.startswith((f"{PREFIX}/bin/", "bin/"))


def shared_objects(binaries: list[Path]) -> list[Entry]:
    """The loader at its fixed path, and the libraries directly in /lib, where it searches."""
    found: dict[str, Path] = {}
    for binary in binaries:
        listed = subprocess.run(["ldd", str(binary)], capture_output=True, text=True, check=False)
        for name, path in re.findall(r"(\S+) => (/\S+)", listed.stdout):
            found[f"lib/{name}"] = Path(path).resolve()
        for path in re.findall(r"^\s+(/\S+) \(", listed.stdout, re.MULTILINE):
            found[path.lstrip("/")] = Path(path).resolve()
    return sorted(found.items())


def add_folders(tar: tarfile.TarFile, names: set[str]) -> None:
    parents = {str(p) for name in names for p in Path(name).parents} - {"."}
    for name in sorted(parents):
        folder = tarfile.TarInfo(name)
        folder.type = tarfile.DIRTYPE
        folder.mode = 0o1777 if name == "tmp" else 0o755
        tar.addfile(folder)


def add_link(tar: tarfile.TarFile, name: str, target: str) -> None:
    link = tarfile.TarInfo(name)
    link.type = tarfile.SYMTYPE
    link.linkname = target
    tar.addfile(link)


def add_bytes(tar: tarfile.TarFile, name: str, content: bytes) -> None:
    entry = tarfile.TarInfo(name)
    entry.size = len(content)
    entry.mode = 0o644
    tar.addfile(entry, io.BytesIO(content))


def owned_by_root(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    """Make the entry readable for any user of a container, whatever its permissions here."""
    entry.uid = entry.gid = 0
    entry.uname = entry.gname = "root"
    entry.mode = 0o755 if entry.mode & 0o111 else 0o644
    return entry


if __name__ == "__main__":
    print(build_image(sys.argv[1] if len(sys.argv) > 1 else DEFAULT_ENGINE))
