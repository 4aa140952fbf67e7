"""The door of the agents' endpoint: a caller is known before its body is read, and has limits."""

import asyncio
import json
import threading
from collections import Counter
from types import SimpleNamespace

import httpx
import pytest
from asgiref.sync import sync_to_async
from django.utils import timezone

from agents.contract.calls import (
    ENROL_PATH,
    EPOCH_HEADER,
    HELLO_PATH,
    SYNC_PATH,
    TELEMETRY_PATH,
)
from agents.contract.node_limits import MAX_GPUS, MAX_OBJECTS, MAX_REPLICAS
from portal.agentapi import door as door_module
from portal.agentapi import endpoint, http, refusals
from portal.agentapi.door import (
    HELLOS,
    REFUSED_GREETINGS,
    REFUSED_TOKENS,
    REPORTED_KIB,
    REPORTS,
    Door,
)
from portal.asgi import application
from portal.audit.models import AuditEntry
from portal.audit.security_events import forget_refusals
from portal.inventory.credentials import bearer_authenticate
from portal.inventory.models import Node
from tests.support.agent_calls import Agent, a_join_token, an_agent, code_of, run

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("one_minute")]

LOG = "/agent/v1/replicas/00000000-0000-0000-0000-000000000000/log"
WITH_A_TOKEN = (("POST", SYNC_PATH), ("POST", TELEMETRY_PATH), ("PUT", f"{LOG}?offset=0"))


@pytest.fixture(autouse=True)
def stopped_door(monkeypatch):
    """A door of its own for which no time passes: nothing is refilled."""
    door = Door(clock=lambda: 0.0)
    monkeypatch.setattr(endpoint, "door", lambda: door)
    return door


def from_address(address):
    transport = httpx.ASGITransport(app=application, client=(address, 40_000))
    return httpx.AsyncClient(transport=transport, base_url="http://portal")


class Body:
    """One MiB in parts; knows how many of them were read."""

    def __init__(self):
        self.parts = 0

    async def __aiter__(self):
        for _ in range(16):
            self.parts += 1
            yield b"[" * (64 << 10)


@pytest.mark.parametrize(("method", "path"), WITH_A_TOKEN)
@pytest.mark.parametrize("token", ["", "nonsense", "of a node", "of nobody"])
def test_finding_2_3_a_stranger_is_refused_before_its_body_is_read(method, path, token):
    agent, stranger, body = an_agent(), Agent(), Body()
    claims = {"of a node": f"{agent.node.pk.hex}.x", "of nobody": f"{stranger.node.pk.hex}.x"}

    async def scenario(client):
        headers = {"Authorization": f"Agent {claims.get(token, token)}"}
        answer = await client.request(method, path, content=body, headers=headers)
        assert code_of(answer) == (401, "token_invalid")

    run(scenario)
    assert body.parts == 0


def test_finding_2_3_a_body_is_decoded_beside_the_event_loop(monkeypatch):
    agent, names = an_agent(), []
    real = endpoint.read_json
    monkeypatch.setattr(
        endpoint, "read_json", lambda b: (names.append(threading.current_thread().name), real(b))[1]
    )

    async def scenario(client):
        await agent.hello(client)
        names.clear()
        assert (await agent.sync(client)).status_code == 200

    run(scenario)
    assert [name.partition("_")[0] for name in names] == ["agentdecode"]


@pytest.mark.parametrize(
    ("field", "most"), [("replicas", MAX_REPLICAS), ("gpus", MAX_GPUS), ("slices", 8 * MAX_GPUS)]
)
def test_finding_2_3_lists_are_as_long_as_those_of_a_node(field, most):
    agent = an_agent()

    async def scenario(client):
        await agent.hello(client)
        body = agent.sync_body()
        body["observed"][field] = [{}] * 10_000
        answer = await client.post(SYNC_PATH, json=body, headers=agent.headers)
        error = answer.json()["error"]
        assert (answer.status_code, error["field"]) == (400, f"observed.{field}")
        assert error["sentence"] == f"at most {most} entries"

    run(scenario)


def test_finding_2_3_a_body_of_tiny_objects_is_not_even_decoded(monkeypatch):
    agent = an_agent()

    async def scenario(client):
        await agent.hello(client)
        monkeypatch.setattr(http, "json", SimpleNamespace(dumps=json.dumps))
        body = json.dumps(agent.sync_body() | {"events": [{}] * 49_902})
        answer = await client.post(SYNC_PATH, content=body, headers=agent.headers)
        assert code_of(answer) == (400, "malformed")
        assert str(MAX_OBJECTS) in answer.text

    run(scenario)


def test_finding_2_3_the_bytes_of_a_nodes_reports_have_a_rate(stopped_door):
    """Reading a report holds the interpreter's lock."""
    agent = an_agent()

    async def scenario(client):
        await agent.hello(client)
        large = Body()
        for _ in range(REPORTED_KIB.burst // 1024):
            sized = {"Content-Length": str(1 << 20)} | agent.headers
            answer = await client.post(SYNC_PATH, content=b" " * (1 << 20), headers=sized)
            assert code_of(answer) == (400, "malformed")
        answer = await client.post(SYNC_PATH, content=large, headers=agent.headers)
        assert (code_of(answer), large.parts) == ((429, "too_frequent"), 0)
        assert answer.headers["connection"] == "close"
        assert code_of(await agent.log(client, "no-such", 0, b"x")) == (404, "replica_unknown")

    run(scenario)


def test_finding_2_3_a_token_is_looked_up_by_one_read_of_the_primary_key(
    django_assert_num_queries,
):
    agent = an_agent()
    run(agent.hello)
    with django_assert_num_queries(1) as queries:
        assert bearer_authenticate(authorization=f"Agent {agent.token}") == agent.node.pk
    assert '"inventory_node"."id" = ' in queries[0]["sql"]
    assert "desired" not in queries[0]["sql"]


@pytest.mark.parametrize("path", [ENROL_PATH, HELLO_PATH])
def test_finding_2_3_greetings_have_a_small_limit(path):
    async def scenario(client):
        body = Body()
        assert code_of(await client.post(path, content=body)) == (413, "too_large")
        assert body.parts == 1

    run(scenario)


def test_finding_2_14_refused_enrolments_are_throttled_by_address():
    node = Node.objects.create(name="gpu-late")
    ticket = a_join_token(node)

    async def scenario(client):
        guess = {"node": "gpu-late", "join_token": "x", "public_key": Agent().public_key}
        for _ in range(REFUSED_GREETINGS.burst):
            assert code_of(await client.post(ENROL_PATH, json=guess)) == (401, "join_token_invalid")
        answer = await client.post(ENROL_PATH, json=guess)
        assert code_of(answer) == (429, "too_frequent")
        assert int(answer.headers["retry-after"]) == answer.json()["error"]["retry_seconds"] == 1
        async with from_address("198.51.100.7") as elsewhere:
            assert (await Agent(node=node).enrol(elsewhere, ticket)).status_code == 200

    run(scenario)


def test_finding_2_14_refused_hellos_and_bodies_are_throttled_by_address():
    async def scenario(client):
        for number in range(REFUSED_GREETINGS.burst):
            body = Agent().hello_body() if number % 2 else {"colour": "red"}
            assert (await client.post(HELLO_PATH, json=body)).status_code in (400, 401)
        assert code_of(await client.post(HELLO_PATH, json={})) == (429, "too_frequent")
        answer = await client.post(HELLO_PATH, json=Agent().hello_body())
        assert code_of(answer) == (429, "too_frequent")

    run(scenario)


def test_finding_2_14_bad_tokens_are_throttled_and_cost_no_read(monkeypatch):
    async def scenario(client):
        bad = {"Authorization": f"Agent {Agent().node.pk.hex}.x"}
        for _ in range(REFUSED_TOKENS.burst):
            assert code_of(await client.post(SYNC_PATH, headers=bad)) == (401, "token_invalid")
        reads = []
        monkeypatch.setattr(door_module, "run_in_thread", reads.append)
        answer = await client.post(SYNC_PATH, headers=bad)
        assert (code_of(answer), reads) == ((429, "too_frequent"), [])
        assert answer.headers["retry-after"] == "1"

    run(scenario)


def test_a_node_that_has_proven_itself_is_not_kept_out_by_its_neighbours():
    """All of a site may come from one address."""
    agent = an_agent()

    async def scenario(client):
        await agent.hello(client)
        assert (await agent.sync(client)).status_code == 200
        bad = {"Authorization": f"Agent {Agent().node.pk.hex}.x"}
        for _ in range(REFUSED_TOKENS.burst + 1):
            await client.post(SYNC_PATH, headers=bad)
        for _ in range(REFUSED_GREETINGS.burst + 1):
            answer = await client.post(HELLO_PATH, json=Agent().hello_body())
        assert answer.status_code == 429
        assert (await agent.sync(client)).status_code == 200
        assert (await agent.hello(client)).status_code == 200
        assert code_of(await agent.sync(client)) == (429, "too_frequent")

    run(scenario)


def test_a_node_says_hello_at_a_rate_and_strangers_take_nothing_of_it():
    agent = an_agent()

    async def scenario(client):
        stranger = Agent(node=agent.node)
        for _ in range(HELLOS.burst):
            assert (await agent.hello(client)).status_code == 200
            await stranger.hello(client)
        answer = await agent.hello(client)
        assert code_of(answer) == (429, "too_frequent")
        assert int(answer.headers["retry-after"]) == 5
        upper = agent.hello_body(node_id=str(agent.node.pk).upper())
        assert code_of(await client.post(HELLO_PATH, json=upper)) == (429, "too_frequent")

    run(scenario)


def test_a_node_reports_at_a_rate_and_its_logs_do_not_count_against_it():
    agent, other = an_agent(), an_agent()

    async def scenario(client):
        await agent.hello(client)
        await other.hello(client)
        for _ in range(REPORTS.burst):
            assert (await agent.sync(client)).status_code == 200
        assert code_of(await agent.sync(client)) == (429, "too_frequent")
        assert code_of(await agent.log(client, "no-such", 0, b"x")) == (404, "replica_unknown")
        assert (await other.sync(client)).status_code == 200

    run(scenario)


def test_finding_2_17_a_stranger_learns_neither_epoch_nor_name():
    agent = an_agent(name="gpu-secret")

    async def scenario(client):
        await agent.hello(client)
        await agent.hello(client)
        for epoch in (0, 1, 2, 99):
            guess = Agent(node=agent.node, token=f"{agent.node.pk.hex}.x", epoch=epoch)
            answer = await guess.sync(client)
            assert code_of(answer) == (401, "token_invalid")
            assert "gpu-secret" not in answer.text and "2" not in answer.json()["error"]["sentence"]

    run(scenario)


def test_a_body_that_no_one_finishes_is_given_up(monkeypatch):
    monkeypatch.setattr(endpoint, "GREETING_SECONDS", 0)

    async def half_a_body():
        yield b"{"
        await asyncio.Event().wait()

    async def scenario(client):
        answer = await client.post(HELLO_PATH, content=half_a_body())
        assert code_of(answer) == (400, "malformed")

    run(scenario)


@pytest.mark.parametrize(
    ("address", "headers", "is_taken"),
    [
        ("198.51.100.7", {}, False),
        ("198.51.100.7", {"X-Forwarded-Proto": "http"}, False),
        ("198.51.100.7", {"X-Forwarded-Proto": "https"}, True),
        # A proxy on the portal's machine that says nothing of TLS.
        ("127.0.0.1", {"X-Forwarded-For": "198.51.100.7"}, False),
        ("127.0.0.1", {"X-Forwarded-Proto": "http"}, False),
        ("127.0.0.1", {}, True),
        ("::1", {}, True),
    ],
)
def test_finding_2_15_production_takes_no_plain_http(settings, address, headers, is_taken):
    settings.SECURE_SSL_REDIRECT = True
    settings.SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https")
    agent = an_agent()

    async def scenario(_):
        async with from_address(address) as client:
            client.headers.update(headers)
            answer = await agent.hello(client)
            if is_taken:
                assert answer.status_code == 200
            else:
                assert code_of(answer) == (403, "tls_required")

    run(scenario)


def test_finding_2_15_a_forwarded_call_is_plain_http_where_no_proxy_reports_the_scheme(settings):
    settings.SECURE_SSL_REDIRECT = True
    settings.SECURE_PROXY_SSL_HEADER = None

    async def scenario(_):
        async with from_address("198.51.100.7") as client:
            client.headers["X-Forwarded-For"] = "127.0.0.1"
            answer = await client.post(HELLO_PATH, json=Agent().hello_body())
            assert code_of(answer) == (403, "tls_required")

    run(scenario)


def test_a_flood_of_refused_calls_takes_a_thread_only_to_write_a_line(monkeypatch):
    written = []

    async def write(_, *, lines, **__):
        written.extend(lines)

    monkeypatch.setattr(refusals, "run_in_thread", write)

    async def scenario(client):
        for _ in range(REFUSED_GREETINGS.burst + 20):
            await client.post(HELLO_PATH, json=Agent().hello_body())

    forget_refusals()
    run(scenario)
    kinds = Counter(kind for (_, kind, _), _ in written)
    # At 1, 2, 4, 8, …: 40 refused, 20 throttled.
    assert kinds == {"hello_refused": 6, "throttled": 5}


def test_finding_2_9_an_unknown_token_of_a_node_is_a_line_with_address_and_request():
    """One line a minute for each address, however many tokens are tried."""
    agent = an_agent()

    async def scenario(_):
        async with from_address("198.51.100.7") as client:
            client.headers["X-Request-Id"] = "r-1"
            for number, (method, path) in enumerate(WITH_A_TOKEN):
                bad = {"Authorization": f"Agent {agent.node.pk.hex}.{number}", EPOCH_HEADER: "1"}
                refused = await client.request(method, path, headers=bad)
                assert code_of(refused) == (401, "token_invalid")

    forget_refusals()
    run(scenario)
    line = AuditEntry.objects.get(action="agent_token_refused")
    assert (line.address, line.request_id, line.noun) == ("198.51.100.7", "r-1", "node")
    # Counted three times; written at 1 and 2.
    assert (line.occurrences, line.after) == (2, {"reason": "token_invalid"})


def test_the_end_of_a_session_is_no_security_event():
    """An agent says hello again when its token is too old, and another session may replace it."""
    agent = an_agent()

    async def scenario(client):
        assert (await agent.hello(client)).status_code == 200
        await sync_to_async(Node.objects.update)(token_expires_at=timezone.now())
        assert code_of(await agent.sync(client)) == (401, "token_invalid")
        replaced = agent.token
        assert (await agent.hello(client)).status_code == 200
        agent.token = replaced
        assert code_of(await agent.sync(client)) == (409, "epoch_stale")

    forget_refusals()
    run(scenario)
    assert not AuditEntry.objects.filter(action="agent_token_refused").exists()


def test_throttled_tokens_are_a_line_of_the_audit_trail():
    async def scenario(client):
        bad = {"Authorization": f"Agent {Agent().node.pk.hex}.x"}
        for _ in range(REFUSED_TOKENS.burst + 1):
            await client.post(SYNC_PATH, headers=bad)

    forget_refusals()
    run(scenario)
    assert AuditEntry.objects.get(action="throttled").after == {"reason": "too_frequent"}
