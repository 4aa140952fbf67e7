"""Apps of jobs as one web process serves them: their hosts, tickets and cookies, and open calls."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from django.db import connection
from django.test import Client, override_settings
from websockets.utils import accept_key

from portal.accounts.models import User
from portal.apps.application import AppsApplication
from portal.jobs.models import Job
from portal.live.listener import listener
from portal.settings.configured import PLATFORM
from tests.support.app_calls import (
    Call,
    Handler,
    header_of,
    http_call,
    listening,
    saying,
    status_of,
    stream_to,
    websocket_call,
)

DOMAIN = "apps.test"
ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
ORIGIN = "http://testserver"


def served_apps(domain: str = DOMAIN) -> override_settings:
    """While it lasts, apps have hosts below the domain; "": there are none."""
    platform = type(PLATFORM)(**{**vars(PLATFORM), "apps_domain": domain})
    return override_settings(PLATFORM=platform, ALLOWED_HOSTS=["testserver"])


def signed_in(user: User) -> Client:
    client = Client()
    client.force_login(user)
    return client


def host_of(job: Job, app: str = "web") -> tuple[str, str]:
    return "host", f"{app}--j{job.pk}.{DOMAIN}"


@asynccontextmanager
async def apps_before(
    handler: Handler, look_seconds: float = 0.0
) -> AsyncIterator[AppsApplication]:
    """Of one web process, whose way to every port is a server with this handler."""
    async with listening(handler) as port:
        apps = AppsApplication(lambda target: stream_to(port), look_seconds=look_seconds)
        try:
            yield apps
        finally:
            await apps.close()
            await listener().close()


def answers_of(
    handler: Handler, *calls: Call, look_seconds: float = 0.0
) -> list[list[dict[str, Any]]]:
    """What one web process says to these calls, one after another."""

    async def one_by_one() -> list[list[dict[str, Any]]]:
        async with apps_before(handler, look_seconds) as apps:
            return [await call.run(apps) for call in calls]

    return asyncio.run(one_by_one())


def statuses(*calls: Call) -> list[int]:
    """Of the answers to these calls, for an app that says ANSWER."""
    return [status_of(answer) for answer in answers_of(saying(ANSWER), *calls)]


def ticket_of(client: Client, job: Job, app: str = "web") -> str:
    page = client.post(f"/jobs/{job.label}/apps/{app}/open")
    assert page.status_code == 200, page.content.decode()
    address = f"http://{app}--j{job.pk}.{DOMAIN}"
    assert page.context["address"] == f"{address}/_tessera/enter"
    # The form goes there and nowhere else, and tells from where.
    assert page["Referrer-Policy"] == "strict-origin"
    assert f"form-action 'self' {address}" in page["Content-Security-Policy"]
    return str(page.context["ticket"])


def entering(job: Job, ticket: str, app: str = "web", origin: str = ORIGIN) -> Call:
    """The form that hands the ticket in at the app's host."""
    headers = [host_of(job, app), ("accept", "text/html"), ("origin", origin)]
    body = f"ticket={ticket}".encode()
    return http_call("/_tessera/enter", method="POST", headers=headers, body=body)


def cookie_of(job: Job, client: Client) -> tuple[str, str]:
    """From Open to the cookie of the app's host."""
    (entered,) = answers_of(saying(ANSWER), entering(job, ticket_of(client, job)))
    assert status_of(entered) == 303
    assert header_of(entered, "location") == ["/"]
    (cookie,) = header_of(entered, "set-cookie")
    pair, *attributes = cookie.split("; ")
    assert attributes == ["Path=/", "HttpOnly", "SameSite=Lax"]
    return "cookie", pair


def handshake_answer(head: bytes) -> bytes:
    """Of a WebSocket server that accepts this handshake."""
    key = next(
        line.partition(":")[2].strip()
        for line in head.decode().split("\r\n")
        if line.lower().startswith("sec-websocket-key:")
    )
    return (
        "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        f"Sec-WebSocket-Accept: {accept_key(key)}\r\n\r\n"
    ).encode()


def statuses_after(headers: list[tuple[str, str]], change: Callable[[], object]) -> list[int]:
    """A stream and a WebSocket are open while `change` runs, and end with it: the statuses of both,
    called again."""

    async def endless(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        if b"upgrade: websocket" in head.lower():
            writer.write(handshake_answer(head))
        else:
            writer.write(b"HTTP/1.1 200 OK\r\n\r\nfirst")
        await reader.read()
        writer.close()

    def change_rows() -> None:
        try:
            change()
        finally:
            connection.close()

    async def scenario() -> list[int]:
        async with apps_before(endless, look_seconds=0.05) as apps:
            page, socket = http_call(headers=headers), websocket_call(headers=headers)
            calls = [
                asyncio.ensure_future(apps(call.scope, call.sent.get, call.said.put))
                for call in (page, socket)
            ]
            assert (await page.next())["status"] == 200
            assert (await page.next())["body"] == b"first"
            assert (await socket.next())["type"] == "websocket.accept"
            await asyncio.to_thread(change_rows)
            async with asyncio.timeout(5):
                await asyncio.gather(*calls)
            assert (await socket.next())["code"] == 1008
            again = [http_call(headers=headers), websocket_call(headers=headers)]
            return [status_of(await call.run(apps)) for call in again]

    return asyncio.run(scenario())
