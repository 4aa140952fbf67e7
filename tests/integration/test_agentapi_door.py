"""The door of the agents' endpoint: a caller is known before its body is read, over TLS alone."""

import asyncio
import json
import threading
from types import SimpleNamespace

import pytest

from agents.contract.calls import ENROL_PATH, HELLO_PATH, SYNC_PATH
from agents.contract.node_limits import MAX_GPUS, MAX_OBJECTS, MAX_REPLICAS
from portal.agentapi import endpoint, http
from portal.inventory.credentials import bearer_authenticate
from tests.support.agent_calls import (
    CALLS_WITH_A_TOKEN,
    Agent,
    LargeBody,
    an_agent,
    code_of,
    from_address,
    run,
)

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.usefixtures("stopped_door", "one_minute"),
]


@pytest.mark.parametrize(("method", "path"), CALLS_WITH_A_TOKEN)
@pytest.mark.parametrize("token", ["", "nonsense", "of a node", "of nobody"])
def test_finding_2_3_a_stranger_is_refused_before_its_body_is_read(method, path, token):
    agent, stranger, body = an_agent(), Agent(), LargeBody()
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
        body = LargeBody()
        assert code_of(await client.post(path, content=body)) == (413, "too_large")
        assert body.parts == 1

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
