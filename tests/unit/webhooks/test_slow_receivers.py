"""A receiver cannot hold the thread that sends, however slowly it answers: the messages of all
others are recorded after it."""

from __future__ import annotations

import socketserver
import threading
from collections.abc import Iterator
from itertools import repeat

import pytest

from portal.webhooks import http
from portal.webhooks.addresses import parse_networks
from portal.webhooks.http import WebhookMessage, post_message

ANSWER = b"HTTP/1.1 200 OK\r\nX: " + b"x" * 500
TRICKLES = {"no byte": [], "a byte at a time": [bytes([byte]) for byte in ANSWER]}


@pytest.fixture(params=TRICKLES)
def slow(request) -> Iterator[str]:
    """The address of a server whose header takes five seconds or never comes."""
    over = threading.Event()

    class Session(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            for part in TRICKLES[request.param] or repeat(b"", 500):
                if over.wait(0.01):
                    return
                self.request.sendall(part)

    class Server(socketserver.ThreadingTCPServer):
        daemon_threads = True

        def handle_error(self, *_: object) -> None:
            """The other side hangs up."""

    with Server(("127.0.0.1", 0), Session) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}/hook"
        over.set()
        server.shutdown()


def test_an_attempt_ends_in_time(slow, monkeypatch):
    monkeypatch.setattr(http, "ATTEMPT_SECONDS", 0.2, raising=False)
    message = WebhookMessage(1, 1, slow, "secret", b"{}")
    result = post_message(message, parse_networks("127.0.0.0/8"))
    assert (result.status, result.problem) == (None, "No whole answer within 0.2 s")
