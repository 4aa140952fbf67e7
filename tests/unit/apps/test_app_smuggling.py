"""Requests that two readers may end at different places, through the portal's own web server."""

import asyncio
import socket
from contextlib import asynccontextmanager

import pytest
import uvicorn
from django.test import override_settings

from portal.apps import application
from portal.apps.access import AppAccess, Caller
from portal.apps.application import AppsApplication
from portal.apps.hosts import AppName
from portal.live.listener import listener
from portal.settings.configured import PLATFORM
from portal.tunnel.streams import Target
from tests.support.app_calls import LONG_SECONDS, listening, stream_to

HOST = b"Host: web--j1.apps.test\r\nCookie: tessera-app=c\r\n"
SMUGGLED = b"GET /smuggled HTTP/1.1\r\nHost: web--j1.apps.test\r\n\r\n"
CHUNKED, LENGTH = b"Transfer-Encoding: chunked\r\n", b"Content-Length: %d\r\n" % len(SMUGGLED)
REQUESTS = {
    "both framings": HOST + LENGTH + CHUNKED + b"\r\n0\r\n\r\n" + SMUGGLED,
    "two lengths": HOST + LENGTH + b"Content-Length: 0\r\n\r\n" + SMUGGLED,
    "a list of lengths": HOST + b"Content-Length: 0, %d\r\n\r\n" % len(SMUGGLED) + SMUGGLED,
    "a folded header": HOST + b"X-A: 1\r\n " + CHUNKED + b"\r\n" + SMUGGLED,
    "a folded framing": HOST + b"Transfer-Encoding:\r\n chunked\r\n" + LENGTH + b"\r\n" + SMUGGLED,
    "bare line feeds": HOST + b"X-A: 1\n" + CHUNKED + LENGTH + b"\r\n" + SMUGGLED,
    "a chunk that ends early": HOST + CHUNKED + b"\r\n0\n\n" + SMUGGLED,
    "a size with a sign": HOST + CHUNKED + b"\r\n-1\r\n" + SMUGGLED,
    "a coding that is unknown": HOST + b"Transfer-Encoding: xchunked\r\n\r\n" + SMUGGLED,
    "a space in a name": HOST + b"Transfer-Encoding : chunked\r\n" + LENGTH + b"\r\n" + SMUGGLED,
}


@asynccontextmanager
async def served(app_port: int, monkeypatch):
    """A web server with the apps' application, whose visitor is let through."""
    name = AppName(1, "web")
    access = AppAccess(Caller(name, visit_pk=1), "olga", Target(None, 1, 0, 80))

    async def in_thread(work, *arguments):
        return access if work is application.visitor_access else dict.fromkeys(*arguments, access)

    monkeypatch.setattr(application, "run_in_thread", in_thread)
    apps = AppsApplication(lambda target: stream_to(app_port))
    with socket.create_server(("127.0.0.1", 0)) as listening_socket:
        config = uvicorn.Config(apps, lifespan="off", log_level="critical", proxy_headers=False)
        server = uvicorn.Server(config)
        serving = asyncio.ensure_future(server.serve(sockets=[listening_socket]))
        try:
            yield listening_socket.getsockname()[1]
        finally:
            server.should_exit = True
            await serving
            await listener().close()


@pytest.mark.parametrize("kind", sorted(REQUESTS))
def test_an_app_sees_at_most_the_one_request_that_the_portal_admitted(kind, monkeypatch):
    heard: list[bytes] = []

    async def record(reader, writer):
        head = await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
        await writer.drain()
        heard.append(head + await reader.read())

    async def scenario():
        async with listening(record) as app_port, served(app_port, monkeypatch) as port:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(b"POST /first HTTP/1.1\r\n" + REQUESTS[kind])
            await writer.drain()
            writer.write_eof()
            async with asyncio.timeout(LONG_SECONDS):
                await reader.read()
            writer.close()

    platform = type(PLATFORM)(**{**vars(PLATFORM), "apps_domain": "apps.test"})
    with override_settings(PLATFORM=platform, SECURE_SSL_REDIRECT=False):
        asyncio.run(scenario())
    for request in heard:
        head, _, body = request.partition(b"\r\n\r\n")
        lines = head.lower().split(b"\r\n")
        framings = [line for line in lines if line.startswith((b"content-length", b"transfer-enc"))]
        assert len(framings) <= 1
        # What was smuggled has no cookie, so no visitor: it is a body, or it is not there.
        assert head.startswith(b"POST /first ")
        assert not any(line.startswith((b" ", b"\t")) for line in lines)
        if not framings:
            assert body == b""
