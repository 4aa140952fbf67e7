"""Sync: what a node says is kept, what it should know is told at once, holding costs nothing."""

import asyncio
import threading
from uuid import uuid4

import pytest
from django.conf import settings
from django.db import OperationalError, connection

from agents.contract.calls import SYNC_PATH
from agents.contract.documents import NodeFacts
from portal.agentapi import events, sync
from portal.agentapi.long_poll import is_polling, long_poll
from portal.audit.models import Event
from portal.inventory.models import Node
from portal.live.bell import ring
from portal.live.listener import Bell, listener
from portal.token_buckets import BucketRate
from scheduler.core.model.states import NodeStatus
from tests.support.agent_calls import an_agent, run, until

pytestmark = pytest.mark.django_db(transaction=True)
HOLD = {"hold_seconds": 60}


def an_event(seq, **fields):
    return {"seq": seq, "type": "agent.started", "at": "2026-01-01T00:00:00Z"} | fields


async def start(agent, client):
    """Hello and one full sync, so that the next one is held."""
    await agent.hello(client)
    assert (await agent.sync(client)).status_code == 200


async def held(agent, client, **fields):
    """A sync call that is being held."""
    call = asyncio.create_task(agent.sync(client, **HOLD | fields))
    await until(lambda: is_polling(agent.node.pk))
    assert not call.done()
    return call


def test_sync_keeps_contact_lease_and_what_the_node_sees():
    agent = an_agent()
    seen = agent.observed(facts=NodeFacts(cpu_milli=8000, memory_mib=1024, fabric="rack-1"))

    async def scenario(client):
        await agent.hello(client)
        answer = (await agent.sync(client, observed=seen)).json()
        assert (answer["full_required"], answer["desired"]) == (False, None)
        assert answer["lease_seconds"] == settings.PLATFORM.lease_seconds

    run(scenario)
    node = Node.objects.get()
    assert (node.cpu_milli, node.fabric) == (8000, "rack-1")
    assert (node.lease_until - node.last_seen_at).total_seconds() == (
        settings.PLATFORM.lease_seconds
    )


def test_the_whole_document_is_asked_for_when_its_hash_is_news():
    agent = an_agent()

    async def scenario(client):
        await agent.hello(client)
        only_hash = {"observed": None, "observed_hash": "ab"}
        body = agent.sync_body() | only_hash | HOLD
        answer = await client.post(SYNC_PATH, json=body, headers=agent.headers)
        assert answer.json()["full_required"] is True
        known = agent.sync_body()
        await client.post(SYNC_PATH, json=known, headers=agent.headers)
        again = await client.post(SYNC_PATH, json=known | {"observed": None}, headers=agent.headers)
        assert again.json()["full_required"] is False

    run(scenario)


def test_a_node_speaks_for_itself_only():
    agent, other = an_agent(), an_agent()

    async def scenario(client):
        await agent.hello(client)
        answer = await agent.sync(client, observed=other.observed())
        assert answer.status_code == 400
        assert answer.json()["error"]["field"] == "observed.node"

    run(scenario)
    assert Node.objects.get(pk=agent.node.pk).lease_until is None


def test_a_newer_revision_is_told_at_once():
    agent = an_agent()
    agent.desire(7)

    async def scenario(client):
        await agent.hello(client)
        told = (await agent.sync(client, **HOLD)).json()
        assert told["revision"] == told["desired"]["revision"] == 7
        current = (await agent.sync(client, applied_revision=7)).json()
        assert current["desired"] is None

    run(scenario)
    assert Node.objects.get().applied_revision == 7


def test_a_node_ahead_of_a_restored_database_is_told_but_believed_in_nothing():
    agent = an_agent()
    agent.desire(3)

    async def scenario(client):
        await agent.hello(client)
        answer = (await agent.sync(client, applied_revision=2**70)).json()
        assert answer["desired"]["revision"] == 3

    run(scenario)
    assert Node.objects.get().applied_revision == 0


def test_events_are_kept_once_and_in_order():
    agent = an_agent()

    async def scenario(client):
        await agent.hello(client)
        first = await agent.sync(client, events=[an_event(2), an_event(1)])
        assert first.json()["acked_seq"] == 2
        again = await agent.sync(client, events=[an_event(2), an_event(3, sentence="third")])
        assert again.json()["acked_seq"] == 3
        assert (await agent.hello(client)).json()["acked_seq"] == 3

    run(scenario)
    rows = Event.objects.filter(code="agent.started")
    assert [row.data["seq"] for row in rows] == ["1", "2", "3"]
    assert {row.actor for row in rows} == {f"node:{agent.node.name}"}


def test_numbers_beyond_the_database_are_the_callers_mistake():
    agent = an_agent()

    async def scenario(client):
        await agent.hello(client)
        answer = await agent.sync(client, events=[an_event(2**63)])
        assert (answer.status_code, answer.json()["error"]["field"]) == (400, "events.seq")

    run(scenario)


def test_a_silent_node_that_speaks_again_is_online():
    agent = an_agent()

    async def scenario(client):
        await agent.hello(client)
        await asyncio.to_thread(Node.objects.update, status=NodeStatus.LOST)
        assert (await agent.sync(client)).status_code == 200

    run(scenario)
    assert Node.objects.get().status == NodeStatus.ONLINE


def test_a_held_call_is_woken_by_the_nodes_bell():
    agent, other = an_agent(), an_agent()

    async def scenario(client):
        await start(agent, client)
        await start(other, client)
        call, quiet = await held(agent, client), await held(other, client)
        await asyncio.to_thread(agent.desire, 4)
        await asyncio.to_thread(ring, agent.bell)
        assert (await call).json()["desired"]["revision"] == 4
        assert not quiet.done()
        listener().drain()
        await quiet

    run(scenario)


def test_a_ring_for_nothing_goes_on_holding():
    agent = an_agent()

    async def scenario(client):
        await start(agent, client)
        call = await held(agent, client)
        looks = []
        look = sync.sync_news
        sync.sync_news = lambda **arguments: (looks.append(1), look(**arguments))[1]
        try:
            await asyncio.to_thread(ring, agent.bell)
            await until(lambda: bool(looks))
        finally:
            sync.sync_news = look
        assert not call.done()
        await asyncio.to_thread(agent.desire, 1)
        await asyncio.to_thread(ring, agent.bell)
        assert (await call).json()["revision"] == 1

    run(scenario)


def test_shutdown_answers_what_is_held_with_nothing():
    agent = an_agent()

    async def scenario(client):
        await start(agent, client)
        call = await held(agent, client)
        listener().drain()
        answer = await call
        assert (answer.status_code, answer.json()["desired"]) == (200, None)
        # Whoever calls while the process goes down is not held either.
        assert (await agent.sync(client, **HOLD)).status_code == 200

    run(scenario)


def test_a_newer_call_of_a_node_ends_the_older():
    agent = an_agent()

    async def scenario(client):
        await start(agent, client)
        older = await held(agent, client)
        newer = asyncio.create_task(agent.sync(client, **HOLD))
        assert (await older).json()["desired"] is None
        assert not newer.done()
        await asyncio.to_thread(agent.desire, 1)
        await asyncio.to_thread(ring, agent.bell)
        assert (await newer).json()["revision"] == 1

    run(scenario)


def test_a_call_that_a_newer_one_ends_looks_for_nothing(monkeypatch):
    looks = []
    monkeypatch.setattr(sync, "sync_news", lambda **_: looks.append(1))

    async def scenario():
        bell = Bell()
        asyncio.get_running_loop().call_soon(bell.supersede)
        state = sync.SyncState(uuid4(), 4, 7, 3, 3, full_required=False)
        answer = await long_poll(bell, state, 300, asyncio.Event().wait)
        assert (answer.revision, answer.desired, looks) == (3, None, [])

    asyncio.run(scenario())


def test_a_call_held_by_a_replaced_agent_ends_as_stale():
    agent = an_agent()

    async def scenario(client):
        await start(agent, client)
        call = await held(agent, client)
        await agent.hello(client)
        assert (await call).status_code == 409

    run(scenario)


def test_the_late_report_of_a_replaced_agent_does_not_count_as_the_new_ones(monkeypatch):
    """The agent is replaced while its report is applied: the next one has to send its own."""
    agent = an_agent()
    real, others = sync.report_apply, []

    def replace_agent():
        try:
            Node.objects.update(epoch=agent.epoch + 1, observed_hash="")
        finally:
            connection.close()

    def replaced_meanwhile(node, *report, **fields):
        others.append(threading.Thread(target=replace_agent))
        others[0].start()
        return real(node, *report, **fields)

    async def scenario(client):
        await agent.hello(client)
        monkeypatch.setattr(sync, "report_apply", replaced_meanwhile)
        # The new agent may come before the answer is made, which then says so.
        assert (await agent.sync(client)).status_code in (200, 409)
        await asyncio.to_thread(others[0].join)
        answer = await agent.sync(client)
        assert (answer.status_code, answer.json()["error"]["code"]) == (409, "epoch_stale")

    run(scenario)
    assert Node.objects.get().observed_hash == ""


def test_fifty_held_calls_use_no_more_threads_than_the_pool():
    agents = [an_agent() for _ in range(50)]

    async def scenario(client):
        for agent in agents:
            await start(agent, client)
        calls = [await held(agent, client) for agent in agents]
        pool = [t for t in threading.enumerate() if t.name.startswith("agentapi")]
        assert 0 < len(pool) <= settings.PLATFORM.agent_threads
        assert threading.active_count() < 50
        listener().drain()
        answers = await asyncio.gather(*calls)
        assert {answer.status_code for answer in answers} == {200}

    run(scenario)


def test_without_a_database_agents_are_told_to_come_back(monkeypatch):
    agent = an_agent()

    def refuse(**_):
        raise OperationalError("connection refused")

    async def scenario(client):
        await agent.hello(client)
        monkeypatch.setattr(sync, "sync_accept", refuse)
        answer = await agent.sync(client)
        assert (answer.status_code, answer.json()["error"]["code"]) == (503, "unavailable")
        assert int(answer.headers["retry-after"]) > 0

    run(scenario)


def test_a_failure_of_ours_says_nothing_of_itself(monkeypatch, caplog):
    agent = an_agent()

    def fail(**_):
        raise RuntimeError("the secret is 42")

    async def scenario(client):
        await agent.hello(client)
        monkeypatch.setattr(sync, "sync_accept", fail)
        answer = await agent.sync(client)
        assert answer.status_code == 500
        assert "42" not in answer.text

    run(scenario)
    assert "the secret is 42" in caplog.text


def test_finding_2_8_a_node_writes_events_at_a_rate_and_what_is_dropped_is_counted(monkeypatch):
    agent = an_agent()
    monkeypatch.setattr(events, "EVENTS", BucketRate(burst=5, per_second=1e-9))

    async def scenario(client):
        await agent.hello(client)
        first = await agent.sync(client, events=[an_event(seq) for seq in range(1, 5)])
        assert first.json()["acked_seq"] == 4
        for end in (20, 30):
            many = [an_event(seq) for seq in range(end - 15, end)]
            # Dropped ones are acknowledged: the agent must not send them again.
            assert (await agent.sync(client, events=many)).json()["acked_seq"] == end - 1

    run(scenario)
    stored = [row.data["seq"] for row in Event.objects.filter(code="agent.started")]
    assert stored == ["1", "2", "3", "4", "5"]
    assert Node.objects.get().events_dropped == 24
    assert Event.objects.filter(code="events_dropped").count() == 1


def test_an_honest_backlog_is_stored_whole():
    agent = an_agent()

    async def scenario(client):
        await agent.hello(client)
        for start in range(1, 2_000, 500):
            batch = [an_event(seq) for seq in range(start, start + 500)]
            assert (await agent.sync(client, events=batch)).status_code == 200

    run(scenario)
    assert Event.objects.filter(code="agent.started").count() == 2_000
    assert Node.objects.get().events_dropped == 0
