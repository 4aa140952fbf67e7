"""Who opens a terminal in a job, by token or from a page, and until when; what reaches the node."""

import asyncio
import json
from contextlib import asynccontextmanager

import pytest
from django.conf import settings
from django.contrib.sessions.models import Session
from django.test import Client, override_settings

from agents.contract.ssh import SshTarget
from agents.contract.terminal import TerminalTarget
from agents.contract.tunnel import StreamRefusal, read_target
from agents.tunnel.link import OpenRefused, SocketClosed, StreamReset, TunnelLink
from portal.accounts.models import ApiToken, Membership, Role, TokenScope, User
from portal.accounts.services import project_terminals_set
from portal.api.ports import held_sockets
from portal.api.terminals import endpoint
from portal.api.terminals.endpoint import is_terminal_path, terminal_endpoint
from portal.audit.models import AuditEntry
from portal.jobs.models import Replica
from portal.live.listener import listener
from portal.settings.configured import PLATFORM
from portal.tunnel.held import hold_tunnel
from tests.support.app_calls import body_of, status_of, websocket_call
from tests.support.memory_tunnel import tunnel
from tests.support.rows import a_job, a_node, a_project, a_user, settle

pytestmark = pytest.mark.django_db(transaction=True)
HOST = "portal.test"
OWN = ("origin", f"http://{HOST}")
OTHER_ORIGINS = (
    *("http://web--j1.apps.test", "null", "", f"http://{HOST}.evil.test"),
    # As a page that somebody on the way wrote has another scheme than the portal's.
    f"https://{HOST}",
)
ASKED = {
    "terminal": "ab" * 16,
    "is_new": True,
    "received": 0,
    "columns": 80,
    "rows": 24,
    "program": "/bin/zsh",
}


@pytest.fixture(autouse=True)
def often(monkeypatch):
    monkeypatch.setattr(held_sockets, "LOOK_SECONDS", 0.05)


@pytest.fixture
def olga() -> User:
    return a_user("olga")


@pytest.fixture
def job(olga):
    node = a_node("n1", gpus=1)
    row = a_job(olga, a_project("vision", olga))
    settle(node)
    row.refresh_from_db()
    assert row.status == "running"
    return row


def by_token(user: User, scope: TokenScope = TokenScope.WRITE) -> list[tuple[str, str]]:
    return [("authorization", f"Bearer {ApiToken.objects.create(user=user, scope=scope)[1]}")]


def by_page(user: User, *, origin: tuple[str, str] = OWN) -> list[tuple[str, str]]:
    client = Client()
    client.force_login(user)
    name = settings.SESSION_COOKIE_NAME
    return [("cookie", f"theme=dark; {name}={client.cookies[name].value}"), origin]


def a_call(job, headers, query: str = "", way: str = "terminal"):
    path = f"/api/v1/jobs/{job.label}/{way}"
    assert is_terminal_path(path)
    call = websocket_call(path, headers=[("host", HOST), *headers])
    call.scope["query_string"] = query.encode()
    return call


def refusal(job, headers, query: str = "", way: str = "terminal") -> tuple[int, str]:
    async def scenario():
        try:
            return await a_call(job, headers, query, way).run(terminal_endpoint)
        finally:
            await listener().close()

    said = asyncio.run(scenario())
    status = status_of(said)
    return status, json.loads(body_of(said))["code"] if status != 101 else ""


class CallSocket:
    """The browser's end of a call."""

    def __init__(self, call):
        self.call = call
        self.closed_with = None

    async def send(self, message):
        self.call.sent.put_nowait({"type": "websocket.receive", "bytes": message})

    async def receive(self):
        message = await self.call.next()
        if message["type"] == "websocket.close":
            self.closed_with = (message["code"], message["reason"])
            self.call.sent.put_nowait({"type": "websocket.disconnect"})
            raise SocketClosed
        return message["bytes"]

    async def close(self, code, reason):
        self.call.sent.put_nowait({"type": "websocket.disconnect"})


class Node:
    """The agent's side: which terminals were asked for; each says back what it hears."""

    def __init__(self):
        self.targets = []

    async def serve(self, incoming):
        self.targets.append(read_target(incoming.target))
        incoming.accept()
        while data := await incoming.read():
            await incoming.write(data)
        await incoming.end()


@asynccontextmanager
async def opened(job, headers, node, way: str = "terminal"):
    """The link of a client that was let in, and its socket."""
    call = a_call(job, headers, way=way)
    replica = await Replica.objects.aget(attempt__job=job)
    async with tunnel(node.serve) as (portal, _, _):
        with hold_tunnel(replica.node_id, portal):
            serving = asyncio.ensure_future(
                terminal_endpoint(call.scope, call.sent.get, call.said.put)
            )
            assert (await call.next())["type"] == "websocket.accept"
            socket = CallSocket(call)
            link = TunnelLink(socket)
            carrying = asyncio.ensure_future(link.run())
            try:
                yield link, socket
            finally:
                await socket.close(1000, "")
                await asyncio.wait_for(serving, 20)
                carrying.cancel()
                await asyncio.gather(carrying, return_exceptions=True)
                await listener().close()


def as_bytes(**fields) -> bytes:
    return json.dumps(ASKED | fields).encode()


@pytest.mark.parametrize("way", [by_token, by_page])
def test_the_owner_reaches_the_replica_of_the_attempt_that_runs(olga, job, way):
    node, headers = Node(), way(olga)

    async def scenario():
        async with opened(job, headers, node) as (link, _):
            stream = await link.open(as_bytes())
            await stream.write(b"typed")
            assert await stream.read() == b"typed"
            # A client that names an attempt, or what is no request, reaches nothing.
            for garbage in (b"-", b"[]", as_bytes(attempt=1), as_bytes(program="sh -c x")):
                with pytest.raises(OpenRefused) as refused:
                    await link.open(garbage)
                assert refused.value.why in (
                    StreamRefusal.FAILED,
                    StreamRefusal.TOO_MANY_STREAMS,
                )

    asyncio.run(scenario())
    replica = Replica.objects.get(attempt__job=job)
    fields = ASKED | {"attempt": replica.attempt_id, "rank": 0, "idle_seconds": 1_800}
    assert node.targets == [TerminalTarget(**fields)]
    line = AuditEntry.objects.get(action="terminal_open")
    assert (line.actor, line.noun_id, line.after) == ("olga", str(job.pk), {"rank": 0})


def test_ssh_goes_the_same_way_with_a_token_and_its_rules(olga, job):
    node, headers = Node(), by_token(olga)

    async def scenario():
        async with opened(job, headers, node, "ssh") as (link, socket):
            stream = await link.open(json.dumps({"client_key": "A" * 68}).encode())
            await stream.write(b"SSH-2.0-x")
            assert await stream.read() == b"SSH-2.0-x"
            for garbage in (b"-", b'{"client_key": "x y"}', as_bytes()):
                with pytest.raises(OpenRefused):
                    await link.open(garbage)
            await asyncio.to_thread(bar, job)
            with pytest.raises(StreamReset):
                async with asyncio.timeout(20):
                    await stream.read()
            assert socket.closed_with == (1008, endpoint.TERMINAL_LOST)

    asyncio.run(scenario())
    replica = Replica.objects.get(attempt__job=job)
    place = {"attempt": replica.attempt_id, "rank": 0, "idle_seconds": 1_800}
    assert node.targets == [SshTarget(client_key="A" * 68, **place)]
    line = AuditEntry.objects.get(action="ssh_open")
    assert (line.actor, line.noun_id, line.after) == ("olga", str(job.pk), {"rank": 0})
    assert refusal(job, headers, way="ssh") == (403, "forbidden")
    # A page has no use for it.
    assert refusal(job, by_page(olga), way="ssh") == (401, "not_authenticated")


def test_nobody_else_is_let_in_and_no_page_of_another_origin(olga, job):
    mia, root, ott = a_user("mia"), a_user("root", is_superuser=True), a_user("ott")
    Membership.objects.create(project=job.project, user=mia, role=Role.ADMIN)
    for way in (by_token, by_page):
        assert refusal(job, way(mia)) == (403, "forbidden")
        assert refusal(job, way(root)) == (403, "forbidden")
        assert refusal(job, way(ott)) == (404, "not_found")
    assert refusal(job, by_token(olga, TokenScope.READ)) == (403, "scope_missing")
    assert refusal(job, []) == (401, "not_authenticated")
    assert refusal(job, [("authorization", "Bearer tsr_wrong")]) == (401, "authentication_failed")
    for origin in OTHER_ORIGINS:
        assert refusal(job, by_page(olga, origin=("origin", origin)))[0] == 401
    assert refusal(job, by_page(olga)[:1])[0] == 401
    assert refusal(job, by_token(olga), "rank=x") == (400, "invalid_field")
    assert refusal(job, by_token(olga), "rank=3") == (404, "not_found")
    Replica.objects.filter(attempt__job=job).update(status="ready")
    assert refusal(job, by_token(olga)) == (409, "not_running")
    assert not AuditEntry.objects.filter(action="terminal_open").exists()


def test_terminals_are_turned_off_for_a_project_or_the_portal(olga, job):
    project_terminals_set(project=job.project, is_barred=True, actor="root")
    assert refusal(job, by_page(olga)) == (403, "forbidden")
    line = AuditEntry.objects.get(action="project_terminals_set")
    assert (line.before, line.after) == ({"bars_terminals": False}, {"bars_terminals": True})
    project_terminals_set(project=job.project, is_barred=False, actor="root")
    with override_settings(PLATFORM=type(PLATFORM)(**{**vars(PLATFORM), "terminals": False})):
        assert refusal(job, by_token(olga)) == (403, "forbidden")


def bar(job):
    project_terminals_set(project=job.project, is_barred=True, actor="root")


@pytest.mark.parametrize(
    ("way", "change"),
    [
        (by_token, lambda job: ApiToken.objects.all().delete()),
        (by_token, lambda job: Membership.objects.update(role=Role.VIEWER)),
        (by_page, lambda job: Session.objects.all().delete()),
        (by_page, lambda job: job.owner.set_password("another") or job.owner.save()),
        (by_page, lambda job: User.objects.update(is_active=False)),
        (by_page, lambda job: Membership.objects.all().delete()),
        (by_page, bar),
    ],
    ids=["token", "viewer", "session", "password", "inactive", "member", "project"],
)
def test_what_is_open_ends_with_the_right_to_it(olga, job, way, change):
    node, headers = Node(), way(olga)

    async def scenario():
        async with opened(job, headers, node) as (link, socket):
            stream = await link.open(as_bytes())
            await stream.write(b"typed")
            assert await stream.read() == b"typed"
            await asyncio.to_thread(change, job)
            with pytest.raises(StreamReset):
                async with asyncio.timeout(20):
                    await stream.read()
            assert socket.closed_with == (1008, endpoint.TERMINAL_LOST)

    asyncio.run(scenario())


def test_a_user_has_so_many_open(olga, job, monkeypatch):
    monkeypatch.setattr(endpoint, "MAX_OPEN_TERMINALS", 0)
    assert refusal(job, by_token(olga)) == (429, "throttled")
