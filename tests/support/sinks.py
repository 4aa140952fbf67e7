"""Servers on loopback that keep what they are sent: one takes mail, one takes JSON."""

from __future__ import annotations

import json
import socketserver
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from email import message_from_bytes, policy
from email.message import EmailMessage
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any, Self


@dataclass
class MailSink:
    """An SMTP server. `refusals` are answers to the next recipients; `on_mail` is called when a
    mail has arrived whole, before that is answered."""

    mails: list[EmailMessage] = field(default_factory=list)
    refusals: list[str] = field(default_factory=list)
    on_mail: Callable[[], None] = lambda: None
    server: socketserver.TCPServer = field(init=False)

    def __enter__(self) -> Self:
        sink = self

        class Session(socketserver.StreamRequestHandler):
            def handle(self) -> None:
                sink._session(self)

        class Server(socketserver.ThreadingTCPServer):
            daemon_threads = True

        self.server = Server(("127.0.0.1", 0), Session)
        threading.Thread(target=self.server.serve_forever, args=(0.01,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.server.shutdown()
        self.server.server_close()

    @property
    def port(self) -> int:
        return int(self.server.server_address[1])

    @property
    def subjects(self) -> list[str]:
        return [str(mail["Subject"]) for mail in self.mails]

    def _session(self, peer: socketserver.StreamRequestHandler) -> None:
        def answer(line: str) -> None:
            peer.wfile.write(f"{line}\r\n".encode())

        answer("220 sink")
        while words := peer.rfile.readline():
            command = words.strip().upper()
            if command.startswith(b"DATA"):
                answer("354 go on")
                self._take(peer)
                answer("250 kept")
            elif command.startswith(b"RCPT") and self.refusals:
                answer(self.refusals.pop(0))
            elif command.startswith(b"QUIT"):
                answer("221 bye")
                return
            else:
                answer("250 ok")

    def _take(self, peer: socketserver.StreamRequestHandler) -> None:
        lines = []
        while (line := peer.rfile.readline()) not in (b".\r\n", b""):
            lines.append(line.removeprefix(b".") if line.startswith(b"..") else line)
        mail = message_from_bytes(b"".join(lines), policy=policy.default)
        assert isinstance(mail, EmailMessage)
        self.mails.append(mail)
        self.on_mail()


@dataclass
class JsonSink:
    """An HTTP server as of a chat. `answers` are the statuses of the next answers."""

    bodies: list[dict[str, Any]] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    answers: list[int] = field(default_factory=list)
    server: HTTPServer = field(init=False)

    def __enter__(self) -> Self:
        sink = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                sink.bodies.append(json.loads(body))
                sink.headers.append(dict(self.headers))
                self.send_response(sink.answers.pop(0) if sink.answers else 200)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_: object) -> None:
                pass

        self.server = HTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, args=(0.01,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.server.shutdown()
        self.server.server_close()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server.server_port}/services/T1/B2/secret"
