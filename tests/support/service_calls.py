"""Calls of services in a test's own process: a server for each copy, and members' tokens."""

from __future__ import annotations

import asyncio
from collections import Counter
from contextlib import AsyncExitStack
from datetime import timedelta

from django.utils import timezone

from portal.accounts.models import Project, User
from portal.apps.application import AppsApplication
from portal.apps.headers import APP_TOKEN_PREFIX
from portal.apps.models import AppToken
from portal.apps.tokens import KEY_LENGTH
from portal.apps.visits import digest
from portal.job_services.models import JobService
from portal.live.listener import listener
from tests.support.app_calls import listening, stream_to
from tests.support.app_visits import DOMAIN


def token_of(user: User) -> tuple[str, str]:
    """For the apps of vision, as of when the user could have created one."""
    text = APP_TOKEN_PREFIX.decode() + f"{user.pk:064x}"
    AppToken.objects.create(
        user=user,
        name="calls",
        key=text[-KEY_LENGTH:],
        digest=digest(text),
        project=Project.objects.get(slug="vision"),
        expires_at=timezone.now() + timedelta(days=1),
    )
    return "authorization", f"Bearer {text}"


def host_of(service: JobService, name: str = "") -> tuple[str, str]:
    return "host", f"{name or service.name}--s{service.pk}.{DOMAIN}"


def answer(text: str, status: str = "200 OK") -> bytes:
    return f"HTTP/1.1 {status}\r\nContent-Length: {len(text)}\r\n\r\n{text}".encode()


async def hangs_up(reader, writer):
    """Takes the call and answers nothing."""
    await reader.readuntil(b"\r\n\r\n")
    writer.transport.abort()


class Copies:
    """One web process, and a server for each copy by its port. A copy without one cannot be
    reached."""

    def __init__(self, handlers, *, wait_seconds: float = 20.0) -> None:
        self.handlers = handlers
        self.wait_seconds = wait_seconds
        self.opened: Counter[int] = Counter()

    def run(self, work):
        async def run_work():
            async with AsyncExitStack() as stack:
                ports = {
                    port: await stack.enter_async_context(listening(handler))
                    for port, handler in self.handlers.items()
                }

                async def open_stream(target):
                    self.opened[target.port] += 1
                    if target.port not in ports:
                        raise ConnectionRefusedError
                    return await stream_to(ports[target.port])

                apps = AppsApplication(
                    open_stream, look_seconds=0.0, wait_seconds=self.wait_seconds
                )
                try:
                    return await work(apps)
                finally:
                    await listener().close()

        return asyncio.run(run_work())

    def replies(self, *calls):
        """Those to these calls, made one after another."""

        async def one_by_one(apps):
            return [await call.run(apps) for call in calls]

        return self.run(one_by_one)
