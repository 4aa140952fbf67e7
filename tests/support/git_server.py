"""A git server on loopback: git's own http-backend behind TLS, for a host of any name.

/NAME.git             a repository below `root`, for everyone
/private/NAME.git     the same, with the user name and password of `account`
/redirect/NAME.git    sends its callers to `elsewhere`
/endless/NAME.git     an answer that never ends
"""

from __future__ import annotations

import base64
import contextlib
import os
import ssl
import subprocess
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from tests.support.certificates import pair

BARE = {"GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": "/dev/null", "PATH": os.environ["PATH"]}
WHO = {
    f"GIT_{who}_{what}": text
    for who in ("AUTHOR", "COMMITTER")
    for what, text in (("NAME", "Ada"), ("EMAIL", "ada@example.org"))
}


@dataclass
class GitServer:
    """`calls`: method, path and Authorization of each, in their order."""

    root: Path
    host: str
    port: int
    ca_file: str
    account: str = ""
    elsewhere: str = ""
    calls: list[tuple[str, str, str]] = field(default_factory=list)

    def source(self, path: str, ref: str = "") -> str:
        return f"git+https://{self.host}:{self.port}/{path}" + (f"@{ref}" if ref else "")

    @property
    def endpoint(self) -> str:
        return f"{self.host}:{self.port}"


def git(folder: Path, *words: str, env: Mapping[str, str] = WHO) -> str:
    """What git prints, run in the folder without this machine's configuration."""
    done = subprocess.run(
        ["git", "-C", str(folder), *words], env=BARE | dict(env), check=True, capture_output=True
    )
    return done.stdout.decode().strip()


def a_repository(folder: Path, files: Mapping[str, bytes]) -> Path:
    """With one commit on `main`; a file whose name ends in `.sh` is a program."""
    folder.mkdir(parents=True)
    git(folder, "init", "--quiet", "--initial-branch=main")
    commit_files(folder, files)
    return folder


def commit_files(folder: Path, files: Mapping[str, bytes]) -> str:
    """One more commit. Its hash."""
    for name, data in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        path.chmod(0o755 if name.endswith(".sh") else 0o644)
    git(folder, "add", "--all", "--force")
    git(folder, "commit", "--quiet", "--allow-empty", "--message=change")
    return git(folder, "rev-parse", "HEAD")


@contextmanager
def serving_git(
    root: Path, folder: Path, host: str = "git.example", address: str = "127.0.0.1"
) -> Iterator[GitServer]:
    """`folder`: for its certificate. `address`: of this machine."""
    own = pair(host)
    certificate, key = folder / "git.pem", folder / "git.key"
    certificate.write_text(own.certificate)
    key.write_text(own.key)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    server = ThreadingHTTPServer((address, 0), _Handler)
    server.daemon_threads = True
    server.socket = context.wrap_socket(
        server.socket, server_side=True, do_handshake_on_connect=False
    )
    git_server = GitServer(root, host, server.server_port, str(certificate))
    _Handler.server_of[server.server_port] = git_server
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield git_server
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
        del _Handler.server_of[server.server_port]


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server_of: dict[int, GitServer] = {}

    def do_GET(self) -> None:
        self._answer()

    def do_POST(self) -> None:
        self._answer()

    def _answer(self) -> None:
        own = self.server_of[self.server.server_port]
        path, _, query = self.path.partition("?")
        asked = self.headers.get("Authorization", "")
        own.calls.append((self.command, self.path, asked))
        body = self._body()
        kind, _, rest = path.removeprefix("/").partition("/")
        if kind == "redirect":
            self._send(302, {"Location": f"{own.elsewhere}/{rest}?{query}"}, b"")
        elif kind == "endless":
            self._endless()
        elif kind == "private" and asked != f"Basic {_base64(own.account)}":
            self._send(401, {"WWW-Authenticate": "Basic realm=git"}, b"")
        else:
            served = f"/{rest}" if kind == "private" else path
            self._backend(own, served, query, body)

    def _body(self) -> bytes:
        if self.headers.get("Transfer-Encoding") != "chunked":
            return self.rfile.read(int(self.headers.get("Content-Length", 0)))
        found = b""
        while size := int(self.rfile.readline(), 16):
            found += self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()
        return found

    def _backend(self, own: GitServer, path: str, query: str, body: bytes) -> None:
        env = BARE | {
            "GIT_PROJECT_ROOT": str(own.root),
            "GIT_HTTP_EXPORT_ALL": "1",
            "REQUEST_METHOD": self.command,
            "PATH_INFO": path,
            "QUERY_STRING": query,
            "CONTENT_TYPE": self.headers.get("Content-Type", ""),
            "HTTP_CONTENT_ENCODING": self.headers.get("Content-Encoding", ""),
            "GIT_PROTOCOL": self.headers.get("Git-Protocol", ""),
            "CONTENT_LENGTH": str(len(body)),
        }
        done = subprocess.run(
            ["git", "http-backend"], input=body, env=env, capture_output=True, check=False
        )
        head, _, data = done.stdout.partition(b"\r\n\r\n")
        headers = dict(line.decode().split(": ", 1) for line in head.split(b"\r\n") if line)
        status = int(headers.pop("Status", "200 OK").split()[0])
        self._send(status, headers, data)

    def _endless(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "application/x-git-upload-pack-advertisement")
        self.end_headers()
        with contextlib.suppress(OSError):
            self.wfile.write(b"001e# service=git-upload-pack\n0000000eversion 2\n")
            while True:
                self.wfile.write(b"0010agent=aaaaa\n" * 1_000)

    def _send(self, status: int, headers: Mapping[str, str], data: bytes) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: object) -> None:
        """Silent."""


def _base64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()
