"""A Docker Engine in memory, over HTTP, that serves only the API versions that a test names.

All others it refuses in moby's words. Its containers run nothing: a started one prints a line and
ends."""

import json
import re
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

LINE = b"2026-11-02T09:14:11.000000000Z hello from the stand-in\n"
VERSIONED = re.compile(r"/v(\d+\.\d+)(/.*)")


class EngineStandIn:
    """`oldest` to `newest`: the API versions that it serves. `paths`: the requests that it had."""

    def __init__(self, oldest: str, newest: str, **info: Any) -> None:
        self.oldest, self.newest = oldest, newest
        self.info = {"ServerVersion": "stand-in", "ID": "stand-in", "Runtimes": {"runc": {}}} | info
        self.containers: dict[str, dict[str, Any]] = {}
        self.networks: dict[str, dict[str, Any]] = {}
        self.paths: list[str] = []
        self.lock = threading.Lock()

    def answer(self, method: str, url: str, body: dict[str, Any]) -> tuple[int, Any]:
        """Status and JSON; bytes for a log."""
        split = urlsplit(url)
        path, query = split.path, {k: v[0] for k, v in parse_qs(split.query).items()}
        with self.lock:
            self.paths.append(f"{method} {path}")
            if found := VERSIONED.fullmatch(path):
                if refusal := self._refusal(found[1]):
                    return 400, {"message": refusal}
                path = found[2]
            return self._route(method, path, query, body)

    def _refusal(self, version: str) -> str:
        if _number(version) < _number(self.oldest):
            return (
                f"client version {version} is too old. Minimum supported API version is"
                f" {self.oldest}, please upgrade your client to a newer version"
            )
        if _number(version) > _number(self.newest):
            return (
                f"client version {version} is too new. Maximum supported API version is"
                f" {self.newest}"
            )
        return ""

    def _route(
        self, method: str, path: str, query: dict[str, str], body: dict[str, Any]
    ) -> tuple[int, Any]:
        match [method, *path.strip("/").split("/")]:
            case ["GET", "version"]:
                versions = {"ApiVersion": self.newest, "MinAPIVersion": self.oldest}
                return 200, {"Version": "stand-in"} | versions
            case ["GET", "info"]:
                return 200, self.info
            case ["GET", "images", *_]:
                return 200, {"Id": "sha256:0", "Config": {"Env": ["PATH=/bin"]}}
            case ["GET", "networks"]:
                return 200, [n for n in self.networks.values() if _has(n, query)]
            case ["POST", "networks", "create"]:
                number = f"network{len(self.paths)}"
                self.networks[number] = body | {"Id": number, "Created": str(len(self.paths))}
                return 201, {"Id": number}
            case ["DELETE", "networks", number]:
                self.networks.pop(number, None)
                return 204, None
            case ["GET", "containers", "json"]:
                found = [c for c in self.containers.values() if _has(c["Config"], query)]
                return 200, [_summary(container) for container in found]
            case ["POST", "containers", "create"]:
                return 201, {"Id": self._create(query.get("name", ""), body)}
            case [_, "containers", number, *action]:
                return self._container(method, number, action)
        return 404, {"message": f"page not found: {method} {path}"}

    def _container(self, method: str, number: str, action: list[str]) -> tuple[int, Any]:
        if number not in self.containers:
            return 404, {"message": f"No such container: {number}"}
        state = self.containers[number]["State"]
        match [method, *action]:
            case ["GET", "json"]:
                return 200, self.containers[number]
            case ["POST", "start"]:
                state |= {"Status": "exited", "ExitCode": 0}
                return 204, None
            case ["POST", "stop"]:
                return 304, None
            case ["POST", "wait"]:
                return 200, {"StatusCode": 0}
            case ["GET", "logs"]:
                return 200, struct.pack(">BxxxL", 1, len(LINE)) + LINE
            case ["DELETE"]:
                del self.containers[number]
                return 204, None
        return 404, {"message": f"page not found: {method} {action}"}

    def _create(self, name: str, body: dict[str, Any]) -> str:
        number = f"{len(self.paths):064x}"
        config = {"Env": body.get("Env"), "Labels": body.get("Labels", {}), "Tty": False}
        self.containers[number] = {
            "Id": number,
            "Name": f"/{name}",
            "Config": config,
            "HostConfig": body["HostConfig"],
            "State": {"Status": "created", "ExitCode": 0, "Error": ""},
        }
        return number


@contextmanager
def engine_stand_in(engine: EngineStandIn) -> Iterator[str]:
    """The value of DOCKER_HOST by which it is reached."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _serve(self) -> None:
            length = int(self.headers.get("Content-Length") or 0)
            body = json.loads(self.rfile.read(length) or b"{}") if length else {}
            status, answer = engine.answer(self.command, self.path, body)
            is_log = isinstance(answer, bytes)
            content = answer if is_log else b"" if answer is None else json.dumps(answer).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        do_GET = do_POST = do_DELETE = do_HEAD = _serve

        def log_message(self, format: str, *arguments: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"tcp://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def _has(thing: dict[str, Any], query: dict[str, str]) -> bool:
    """Whether its labels and its name are those of the request's filters."""
    filters = json.loads(query.get("filters", "{}"))
    labels = thing.get("Labels") or {}
    for label in filters.get("label", ()):
        name, is_pair, value = label.partition("=")
        if name not in labels or (is_pair and labels[name] != value):
            return False
    names = filters.get("name")
    return not names or any(re.search(name, thing.get("Name", "")) for name in names)


def _summary(container: dict[str, Any]) -> dict[str, Any]:
    return {
        "Id": container["Id"],
        "Labels": container["Config"]["Labels"],
        "State": container["State"]["Status"],
        "HostConfig": {"NetworkMode": container["HostConfig"].get("NetworkMode", "default")},
    }


def _number(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")))
