"""An image registry that answers as slowly or as badly as the name of the repository says.

    127.0.0.1:PORT/seconds-60/NAME   an image whose layer takes 60 s (of 2 MiB, in equal steps)
    127.0.0.1:PORT/silent/NAME       a layer that begins and never goes on
    127.0.0.1:PORT/absent/NAME       no such image;   private/: no access;   broken/: 503
    127.0.0.1:PORT/shell/NAME        an image that runs; /version has how often its tag was moved

A registry with accounts serves `KIND/USER/NAME` to that user alone.

It speaks the part of the registry API (version 2) that a pull needs. The tests' own engine has a
network of its own, so the registry runs inside that. Each event of a layer is a line of `log`:
"begin", "complete" or "broken" (the engine closed the connection), the repository, and the time.
"""

from __future__ import annotations

import base64
import contextlib
import gzip
import hashlib
import io
import json
import os
import random
import re
import shutil
import sys
import tarfile
import time
from collections.abc import Iterator, Mapping
from functools import lru_cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import ClassVar

from docs.examples.build_image import (
    add_bytes,
    add_folders,
    add_link,
    owned_by_root,
    shared_objects,
)
from tests.environment.programs import Program, free_port, temporary_home

MANIFEST = "application/vnd.docker.distribution.manifest.v2+json"
CONFIG = "application/vnd.docker.container.image.v1+json"
LAYER = "application/vnd.docker.image.rootfs.diff.tar.gzip"
LAYER_BYTES = 2 << 20
STEPS = 240
ERRORS = {
    "absent": (404, "MANIFEST_UNKNOWN", "manifest unknown"),
    "private": (401, "UNAUTHORIZED", "authentication required"),
    "broken": (503, "UNAVAILABLE", "service unavailable"),
}
ROOT = Path(__file__).resolve().parents[2]


class ImageRegistry:
    """A running registry, by the engine that reaches it."""

    def __init__(self, log: Path, port: int) -> None:
        self.address = f"127.0.0.1:{port}"
        self._log = log

    def image(self, kind: str, name: str) -> str:
        return f"{self.address}/{kind}/{name}:1"

    def move_tag(self, image: str) -> None:
        """From now on, its tag names other bytes. Those before are there under their digest."""
        moves = moves_file(self._log, image.partition("/")[2].rpartition(":")[0])
        moves.write_text(f"{tag_moves(moves) + 1}")

    def events(self, what: str) -> dict[str, float]:
        """When (Unix time) each repository's layer began, was complete or broken off, the last."""
        lines = (line.split() for line in self._log.read_text().splitlines())
        return {repository: float(at) for word, repository, at in lines if word == what}


@contextlib.contextmanager
def running_registry(
    engine: str, accounts: Mapping[str, str] | None = None
) -> Iterator[ImageRegistry]:
    """`engine`: the base URL of the engine that will pull from it. `accounts`: passwords by user;
    without any, everybody is served."""
    pid = Path(engine.removeprefix("unix://")).parent / "docker.pid"
    inside = ["nsenter", "--target", pid.read_text().strip(), "--net"] if pid.exists() else []
    with temporary_home("registry") as home:
        log = home / "layers.log"
        log.touch()
        port = free_port()
        command = [*inside, sys.executable, "-m", __name__, str(log), str(port)]
        command.append(json.dumps(dict(accounts or {})))
        environ = os.environ | {"PYTHONPATH": str(ROOT)}
        program = Program(command, log=home / "registry.log", environ=environ)
        try:
            program.wait_ready(lambda: (home / "ready").exists())
            yield ImageRegistry(log, port)
        finally:
            program.stop()


def moves_file(log: Path, repository: str) -> Path:
    return log.with_name(f"{repository.replace('/', '+')}.moves")


def tag_moves(file: Path) -> int:
    """How often the tag was moved."""
    return int(file.read_text()) if file.exists() else 0


@lru_cache
def image_blobs(repository: str, moves: int = 0) -> tuple[bytes, bytes, bytes]:
    """Manifest, config and layer: one file of random bytes, different for each repository."""
    content = random.Random(f"{repository}{moves or ''}").randbytes(LAYER_BYTES)
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w") as tar:
        if repository.startswith("shell/"):
            add_shell(tar, moves)
        else:
            add_bytes(tar, "weights.bin", content)
    layer = gzip.compress(archive.getvalue(), compresslevel=1, mtime=0)
    config = json.dumps(
        {
            "architecture": {"x86_64": "amd64", "aarch64": "arm64"}[os.uname().machine],
            "os": "linux",
            "config": {"Env": ["PATH=/bin"]},
            "rootfs": {"type": "layers", "diff_ids": [digest_of(archive.getvalue())]},
        }
    ).encode()
    manifest = {
        "schemaVersion": 2,
        "mediaType": MANIFEST,
        "config": {"mediaType": CONFIG, "size": len(config), "digest": digest_of(config)},
        "layers": [{"mediaType": LAYER, "size": len(layer), "digest": digest_of(layer)}],
    }
    return json.dumps(manifest).encode(), config, layer


def add_shell(tar: tarfile.TarFile, moves: int) -> None:
    busybox = Path(shutil.which("busybox") or "/bin/busybox").resolve()
    entries = [("bin/busybox", busybox), *shared_objects([busybox])]
    add_folders(tar, {name for name, _ in entries} | {"tmp/x", "etc/passwd", "proc/x"})
    for name, source in entries:
        tar.add(source, name, recursive=False, filter=owned_by_root)
    for word in ("sh", "cat"):
        add_link(tar, f"bin/{word}", "busybox")
    add_bytes(tar, "version", f"version {moves}\n".encode())


def digest_of(content: bytes) -> str:
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    log_path: Path
    accounts: ClassVar[dict[str, str]] = {}

    def do_GET(self) -> None:
        user = self._user()
        if self.accounts and user is None:
            self._refuse(401, "UNAUTHORIZED", "authentication required")
            return
        if self.path.rstrip("/") == "/v2":
            self._send(b"{}", "application/json")
            return
        found = re.fullmatch(r"/v2/(.+)/(manifests|blobs)/([^/]+)", self.path)
        if found is None:
            self._refuse(404, "NOT_FOUND", "not found")
            return
        repository, _, reference = found.groups()
        kind = repository.partition("/")[0]
        if kind in ERRORS:
            self._refuse(*ERRORS[kind])
            return
        if self.accounts and user not in repository.split("/"):
            self._refuse(403, "DENIED", "requested access to the resource is denied")
            return
        moves = tag_moves(moves_file(self.log_path, repository))
        known = [image_blobs(repository, number) for number in range(moves + 1)]
        manifest, config, layer = next(
            (blobs for blobs in known if reference in map(digest_of, blobs)), known[-1]
        )
        if found[2] == "manifests":
            self._send(manifest, MANIFEST)
        elif reference == digest_of(config):
            self._send(config, "application/octet-stream")
        else:
            self._send_layer(repository, kind, layer)

    do_HEAD = do_GET

    def _user(self) -> str | None:
        """Who signs in by the password of the account."""
        text = self.headers.get("Authorization", "").removeprefix("Basic ")
        user, _, password = base64.b64decode(text).decode().partition(":")
        return user if user and self.accounts.get(user) == password else None

    def log_message(self, format: str, *arguments: object) -> None:
        """Only layers are logged."""

    def _send(self, content: bytes, kind: str) -> None:
        self._begin(200, kind, content)
        if self.command == "GET":
            self.wfile.write(content)

    def _refuse(self, status: int, code: str, words: str) -> None:
        errors = json.dumps({"errors": [{"code": code, "message": words}]}).encode()
        self._begin(status, "application/json", errors)
        if self.command == "GET":
            self.wfile.write(errors)

    def _begin(self, status: int, kind: str, content: bytes) -> None:
        self.send_response(status)
        self.send_header("Docker-Distribution-Api-Version", "registry/2.0")
        self.send_header("Docker-Content-Digest", digest_of(content))
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(content)))
        if status == 401 and self.accounts:
            self.send_header("WWW-Authenticate", 'Basic realm="images"')
        self.end_headers()

    def _send_layer(self, repository: str, kind: str, layer: bytes) -> None:
        self._note("begin", repository)
        seconds = float(kind.removeprefix("seconds-")) if kind.startswith("seconds-") else 0.0
        size = -(-len(layer) // STEPS)
        try:
            self._begin(200, "application/octet-stream", layer)
            for step in range(STEPS):
                self.wfile.write(layer[step * size : (step + 1) * size])
                self.wfile.flush()
                if kind == "silent":
                    self.connection.recv(1)  # returns when the engine gives up
                    raise BrokenPipeError
                if seconds:
                    time.sleep(seconds / STEPS)
        except OSError:
            self._note("broken", repository)
            self.close_connection = True
        else:
            self._note("complete", repository)

    def _note(self, what: str, repository: str) -> None:
        with self.log_path.open("a") as log:
            log.write(f"{what} {repository} {time.time()}\n")


def main() -> None:
    """`argv`: the log, the port and the accounts. When it listens, "ready" is beside the log."""
    Handler.log_path = Path(sys.argv[1])
    Handler.accounts = json.loads(sys.argv[3])
    server = ThreadingHTTPServer(("127.0.0.1", int(sys.argv[2])), Handler)
    server.daemon_threads = True
    Handler.log_path.with_name("ready").touch()
    server.serve_forever()


if __name__ == "__main__":
    main()
