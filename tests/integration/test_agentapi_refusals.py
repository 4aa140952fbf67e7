"""What refused calls of agents leave in the audit trail, and what they cost."""

from collections import Counter

import pytest
from asgiref.sync import sync_to_async
from django.utils import timezone

from agents.contract.calls import EPOCH_HEADER, HELLO_PATH, SYNC_PATH
from portal.agentapi import refusals
from portal.agentapi.door import REFUSED_GREETINGS, REFUSED_TOKENS
from portal.audit.models import AuditEntry
from portal.audit.security_events import forget_refusals
from portal.inventory.models import Node
from tests.support.agent_calls import (
    CALLS_WITH_A_TOKEN,
    Agent,
    an_agent,
    code_of,
    from_address,
    run,
)

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.usefixtures("stopped_door", "one_minute"),
]


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
            for number, (method, path) in enumerate(CALLS_WITH_A_TOKEN[:3]):
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
