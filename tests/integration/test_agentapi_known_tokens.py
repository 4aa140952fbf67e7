"""A token that the door read a moment ago is not read there again, and ends as any other."""

import pytest
from asgiref.sync import sync_to_async
from django.utils import timezone

from agents.contract.calls import SYNC_PATH
from portal.agentapi import door as door_module
from portal.agentapi import endpoint
from portal.agentapi.door import READ_AGAIN_SECONDS, Door
from portal.inventory.credentials import bearer_authenticate
from portal.inventory.models import Node
from scheduler.core.model.states import NodeStatus
from tests.support.agent_calls import LargeBody, an_agent, code_of, run

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def seconds(monkeypatch):
    """The clock of a door of its own."""
    shown = [0.0]
    door = Door(clock=lambda: shown[0])
    monkeypatch.setattr(endpoint, "door", lambda: door)
    return shown


def test_a_token_is_read_at_the_door_once_in_a_time(monkeypatch, seconds):
    agent, reads = an_agent(), []

    def read(**header):
        reads.append(header)
        return bearer_authenticate(**header)

    monkeypatch.setattr(door_module, "bearer_authenticate", read)

    async def scenario(client):
        await agent.hello(client)
        for _ in range(3):
            assert (await agent.sync(client)).status_code == 200
        assert len(reads) == 1
        seconds[0] += READ_AGAIN_SECONDS
        assert (await agent.sync(client)).status_code == 200
        assert len(reads) == 2

    run(scenario)


@pytest.mark.parametrize("how", ["retired", "replaced", "expired"])
def test_a_known_token_that_has_ended_changes_nothing_and_is_a_strangers_from_then_on(how):
    agent, body = an_agent(), LargeBody()
    refusals_by_end = {
        "retired": (410, "node_retired", {"status": NodeStatus.RETIRED}),
        "replaced": (401, "token_invalid", {"token_digest": "0" * 64}),
        "expired": (401, "token_invalid", {"token_expires_at": timezone.now()}),
    }
    status, code, columns = refusals_by_end[how]

    async def scenario(client):
        await agent.hello(client)
        assert (await agent.sync(client)).status_code == 200
        node = Node.objects.filter(pk=agent.node.pk)
        await sync_to_async(node.update)(last_seen_at=None, **columns)
        assert code_of(await agent.sync(client)) == (status, code)
        answer = await client.post(SYNC_PATH, content=body, headers=agent.headers)
        assert (code_of(answer), body.parts) == ((status, code), 0)

    run(scenario)
    agent.node.refresh_from_db()
    assert agent.node.last_seen_at is None
