"""The address where a worker or beat serves its metrics: one page, to one caller at a time."""

import http.server
import ipaddress
import logging
import os
import socket
import threading
from dataclasses import dataclass
from http import HTTPStatus

from portal.monitoring.exposition import CONTENT_TYPE, PATH, Exposition, refusal_status

# A caller that is slower than this, to send or to read, is left.
CALL_SECONDS = 5.0
# The address may still be held by children of a worker that was killed.
RETRY_SECONDS = 5.0

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ListenAddress:
    host: str
    port: int

    @property
    def is_loopback(self) -> bool:
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return self.host == "localhost"


def listen_address(text: str) -> ListenAddress:
    """HOST:PORT, or PORT alone for loopback; IPv6 in brackets. Raises ValueError."""
    host, _, port = text.rpartition(":")
    bare = host.removeprefix("[").removesuffix("]")
    is_port = port.isascii() and port.isdigit() and int(port) <= 65_535
    if not is_port or (":" in bare and host == bare):
        raise ValueError(
            f"TESSERA_METRICS_LISTEN={text!r} is not HOST:PORT, such as 127.0.0.1:9808"
        )
    return ListenAddress(bare or "127.0.0.1", int(port))


class _Server(http.server.HTTPServer):
    def handle_error(self, request: object, client_address: object) -> None:
        log.info("a scrape of metrics failed", exc_info=True)


class _Server6(_Server):
    address_family = socket.AF_INET6


class MetricsServer:
    """Serves from `start` until `close`, in a thread of its own. An address that is in use is tried
    again and again: metrics stop no work."""

    def __init__(
        self, address: ListenAddress, exposition: Exposition, *, needs_token: bool
    ) -> None:
        self.port = 0
        """The one that was bound; 0 until then."""
        self._address = address
        self._handler = _handler(exposition, needs_token=needs_token)
        self._closing = threading.Event()
        self._server: http.server.HTTPServer | None = None
        self._thread = threading.Thread(target=self._run, name="metrics", daemon=True)

    def start(self) -> None:
        # A child that a worker forks later would keep the address after its parent's end.
        os.register_at_fork(after_in_child=self._close_socket)
        self._thread.start()

    def close(self) -> None:
        self._closing.set()
        if self._server is not None:
            self._server.shutdown()
        self._thread.join()

    def _run(self) -> None:
        logged = False
        while not self._closing.is_set():
            try:
                self._server = _server(self._address, self._handler)
            except OSError as error:
                if not logged:
                    log.error("metrics are not served yet, at %s: %s", self._address, error)
                logged = True
                self._closing.wait(RETRY_SECONDS)
                continue
            self.port = self._server.server_port
            log.info("metrics at http://%s:%d%s", self._address.host, self.port, PATH)
            with self._server:
                self._server.serve_forever()
            return

    def _close_socket(self) -> None:
        if self._server is not None:
            self._server.socket.close()


def _server(
    address: ListenAddress, handler: type[http.server.BaseHTTPRequestHandler]
) -> http.server.HTTPServer:
    kind = _Server6 if ":" in address.host else _Server
    return kind((address.host, address.port), handler)


def _handler(
    exposition: Exposition, *, needs_token: bool
) -> type[http.server.BaseHTTPRequestHandler]:
    class Handler(http.server.BaseHTTPRequestHandler):
        timeout = CALL_SECONDS
        server_version, sys_version = "tessera", ""

        def do_GET(self) -> None:
            refused = needs_token and refusal_status(self.headers.get("Authorization", ""))
            if self.path.partition("?")[0] != PATH:
                self._respond(HTTPStatus.NOT_FOUND)
            elif refused:
                self._respond(HTTPStatus(refused))
            else:
                self._respond(HTTPStatus.OK, exposition.text())

        def _respond(self, status: HTTPStatus, body: bytes = b"") -> None:
            self.send_response(status)
            self.send_header("Content-Type", CONTENT_TYPE)
            self.send_header("Content-Length", str(len(body)))
            if status is HTTPStatus.UNAUTHORIZED:
                self.send_header("WWW-Authenticate", "Bearer")
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *arguments: object) -> None:
            """Scrapes are not logged."""

    return Handler
