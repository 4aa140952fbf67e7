"""Limits at the door of the agents' endpoint: what a node, and what an address, may send."""

import math
from contextlib import ExitStack, suppress
from uuid import uuid4

import pytest

from agents.contract.calls import ENROL_PATH, HELLO_PATH, SYNC_PATH
from agents.contract.errors import ContractError, ContractErrorCode
from portal.agentapi import door as door_module
from portal.agentapi.door import (
    HELLOS,
    REFUSED_GREETINGS,
    REFUSED_TOKENS,
    REPORTED_KIB,
    REPORTS,
)
from portal.inventory.models import Node
from tests.support.agent_calls import (
    Agent,
    LargeBody,
    a_join_token,
    an_agent,
    code_of,
    from_address,
    run,
)

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.usefixtures("stopped_door", "one_minute"),
]


def test_finding_2_3_the_bytes_of_a_nodes_reports_have_a_rate():
    """Reading a report holds the interpreter's lock."""
    agent = an_agent()

    async def scenario(client):
        await agent.hello(client)
        large = LargeBody()
        for _ in range(REPORTED_KIB.burst // 1024):
            sized = {"Content-Length": str(1 << 20)} | agent.headers
            answer = await client.post(SYNC_PATH, content=b" " * (1 << 20), headers=sized)
            assert code_of(answer) == (400, "malformed")
        answer = await client.post(SYNC_PATH, content=large, headers=agent.headers)
        assert (code_of(answer), large.parts) == ((429, "too_frequent"), 0)
        assert answer.headers["connection"] == "close"
        assert code_of(await agent.log(client, "no-such", 0, b"x")) == (404, "replica_unknown")

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


def test_a_site_behind_one_address_comes_back_at_once_and_strangers_do_not():
    """More greetings than may be refused are looked at together; what was refused of them is
    waited for."""
    door = door_module.Door(clock=lambda: 0.0)
    scope = {"type": "http", "headers": [], "client": ("198.51.100.7", 1)}
    at_once = 5 * REFUSED_GREETINGS.burst
    with ExitStack() as together:
        for _ in range(at_once):
            together.enter_context(door.hello(scope, str(uuid4())))
    refused = [door.hello(scope, str(uuid4())) for _ in range(at_once)]
    for hello in refused:
        hello.__enter__()
    wrong = ContractError(ContractErrorCode.TOKEN_INVALID, "no")
    for hello in refused:
        with suppress(ContractError):
            hello.__exit__(ContractError, wrong, None)
    owed = (at_once - REFUSED_GREETINGS.burst + 1) / REFUSED_GREETINGS.per_second
    with pytest.raises(ContractError, match=f"in {math.ceil(owed)} s"):
        door.hello(scope, str(uuid4())).__enter__()


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
