"""Who may speak for a node: enrolment, hello, tokens, epochs."""

import time
from datetime import timedelta

import pytest
from django.utils import timezone

from agents.contract.calls import HELLO_PATH, SYNC_PATH
from portal.audit.models import Event
from portal.inventory.models import JoinToken, Node
from scheduler.core.model.states import NodeStatus
from tests.support.agent_calls import Agent, a_join_token, an_agent, code_of, run

pytestmark = pytest.mark.django_db(transaction=True)


def test_enrol_stores_the_key_and_burns_the_token():
    agent = Agent(node=Node.objects.create(name="a100-1"))
    ticket = a_join_token(agent.node)

    async def scenario(client):
        first = await agent.enrol(client, ticket)
        assert first.json() == {"node_id": str(agent.node.pk)}
        assert code_of(await Agent(node=agent.node).enrol(client, ticket)) == (
            401,
            "join_token_invalid",
        )
        assert (await agent.hello(client)).status_code == 200

    run(scenario)
    assert JoinToken.objects.get().used_at is not None
    agent.node.refresh_from_db()
    assert agent.node.public_key == agent.public_key
    assert Event.objects.filter(node=agent.node, code="node_enrolled").count() == 1


@pytest.mark.parametrize("why", ["expired", "of another node", "made up"])
def test_enrol_refuses_a_token_that_is(why):
    agent, other = Agent(node=Node.objects.create(name="n1")), Node.objects.create(name="n2")
    tokens = {
        "expired": lambda: a_join_token(agent.node, seconds=-1),
        "of another node": lambda: a_join_token(other),
        "made up": lambda: "made-up",
    }
    ticket = tokens[why]()

    async def scenario(client):
        assert code_of(await agent.enrol(client, ticket)) == (401, "join_token_invalid")

    run(scenario)
    assert not JoinToken.objects.filter(used_at__isnull=False).exists()
    assert Node.objects.get(pk=agent.node.pk).public_key == ""


def test_a_bad_key_does_not_burn_the_token():
    node = Node.objects.create(name="n1")
    ticket = a_join_token(node)

    async def scenario(client):
        body = {"node": "n1", "join_token": ticket, "public_key": "AAAA"}
        answer = await client.post("/agent/v1/enrol", json=body)
        assert code_of(answer) == (400, "invalid_field")
        assert answer.json()["error"]["field"] == "public_key"
        assert (await Agent(node=node).enrol(client, ticket)).status_code == 200

    run(scenario)


def test_enrolling_again_replaces_the_key_and_ends_the_old_session():
    old = an_agent()
    ticket = a_join_token(old.node)
    new = Agent(node=old.node)

    async def scenario(client):
        await old.hello(client)
        assert (await new.enrol(client, ticket)).status_code == 200
        assert code_of(await old.sync(client)) == (409, "epoch_stale")
        assert code_of(await old.hello(client)) == (401, "signature_invalid")
        assert (await new.hello(client)).status_code == 200
        assert (await new.sync(client)).status_code == 200

    run(scenario)


def test_hello_brings_the_node_online_and_raises_the_epoch():
    agent = an_agent()

    async def scenario(client):
        first = (await agent.hello(client)).json()
        second = (await agent.hello(client, boot_id="boot-2")).json()
        assert (first["epoch"], second["epoch"]) == (1, 2)
        assert first["access_token"] != second["access_token"]

    run(scenario)
    agent.node.refresh_from_db()
    assert agent.node.status == NodeStatus.ONLINE
    assert agent.node.boot_id == "boot-2"
    assert agent.token not in agent.node.token_digest
    rebooted = Event.objects.get(node=agent.node, code="node_rebooted")
    assert {"old": "boot-1", "new": "boot-2"}.items() <= rebooted.data.items()


def test_unknown_node_and_wrong_signature_read_the_same():
    agent, stranger = an_agent(), Agent()

    async def scenario(client):
        unknown = await stranger.hello(client)
        stranger.node = agent.node
        forged = await stranger.hello(client)
        assert code_of(unknown) == (401, "node_unknown")
        assert code_of(forged) == (401, "signature_invalid")
        assert unknown.json()["error"]["sentence"] == forged.json()["error"]["sentence"]

    run(scenario)
    assert Node.objects.get().epoch == 0


def test_a_signature_covers_every_field():
    agent = an_agent()

    async def scenario(client):
        for name, value in {"boot_id": "x", "nonce": "x", "time_ms": 1}.items():
            body = agent.hello_body() | {name: value}
            answer = await client.post(HELLO_PATH, json=body)
            assert code_of(answer) == (401, "signature_invalid")

    run(scenario)


def test_a_replayed_hello_is_refused():
    agent = an_agent()

    async def scenario(client):
        body = agent.hello_body()
        assert (await client.post(HELLO_PATH, json=body)).status_code == 200
        assert code_of(await client.post(HELLO_PATH, json=body)) == (401, "nonce_reused")

    run(scenario)
    assert Node.objects.get().epoch == 1


@pytest.mark.parametrize("seconds", [-301, 301])
def test_a_clock_that_is_far_off_is_told_ours(seconds):
    agent = an_agent()

    async def scenario(client):
        answer = await agent.hello(client, time_ms=int((time.time() + seconds) * 1000))
        assert code_of(answer) == (401, "clock_skew")
        ours = answer.json()["error"]["server_time_ms"]
        assert abs(ours / 1000 - time.time()) < 30

    run(scenario)


def test_old_nonces_are_forgotten():
    agent = an_agent()

    async def scenario(client):
        await agent.hello(client)

    agent.node.nonces.create(nonce="old", seen_at=timezone.now() - timedelta(minutes=11))
    run(scenario)
    assert not agent.node.nonces.filter(nonce="old").exists()
    assert agent.node.nonces.count() == 1


def test_a_forged_or_expired_token_is_refused():
    agent = an_agent()

    async def scenario(client):
        await agent.hello(client)
        honest = agent.token
        for forged in ("", "nonsense", honest[:-1] + ("A" if honest[-1] != "A" else "B")):
            agent.token = forged
            assert code_of(await agent.sync(client)) == (401, "token_invalid")
        agent.token = honest
        assert (await agent.sync(client)).status_code == 200

    run(scenario)
    Node.objects.update(token_expires_at=timezone.now() - timedelta(seconds=1))

    async def later(client):
        assert code_of(await agent.sync(client)) == (401, "token_invalid")

    run(later)


def test_an_older_epoch_is_stale_and_changes_nothing():
    agent = an_agent()

    async def scenario(client):
        await agent.hello(client)
        old = Agent(key=agent.key, node=agent.node, token=agent.token, epoch=agent.epoch)
        await agent.hello(client)
        assert code_of(await old.sync(client, applied_revision=0)) == (409, "epoch_stale")

    run(scenario)
    assert Node.objects.get().lease_until is None


def test_a_retired_node_is_told_so():
    agent = an_agent()

    async def scenario(client):
        await agent.hello(client)

    async def later(client):
        assert code_of(await agent.sync(client)) == (410, "node_retired")
        assert code_of(await agent.hello(client)) == (410, "node_retired")
        assert code_of(await agent.enrol(client, ticket)) == (410, "node_retired")

    run(scenario)
    ticket = a_join_token(agent.node)
    Node.objects.update(status=NodeStatus.RETIRED)
    run(later)
    assert JoinToken.objects.get().used_at is None


def test_bodies_that_are_refused_before_anything_is_read():
    agent = an_agent()

    async def scenario(client):
        await agent.hello(client)

        async def post(**arguments):
            return await client.post(SYNC_PATH, headers=agent.headers, **arguments)

        assert code_of(await post(content=b"x" * (2 << 20))) == (413, "too_large")
        assert code_of(await post(content=b"{")) == (400, "malformed")
        assert code_of(await post(content=b"[" * 100_000)) == (400, "malformed")
        assert code_of(await post(json=["a list"])) == (400, "malformed")
        nul = agent.sync_body(observed_hash="\0")
        assert code_of(await post(json=nul)) == (400, "malformed")
        newer = agent.sync_body() | {"protocol": 2, "field_of_tomorrow": 1}
        assert code_of(await post(json=newer)) == (426, "protocol_too_new")
        unknown = await post(json=agent.sync_body() | {"colour": "red"})
        assert code_of(unknown) == (400, "unknown_field")
        assert unknown.json()["error"]["field"] == "colour"
        assert (await client.get(SYNC_PATH)).status_code == 404

    run(scenario)


def test_a_body_without_a_length_is_read_no_further_than_the_limit():
    agent = an_agent()
    sent = []

    async def flood():
        for _ in range(64):
            sent.append(1)
            yield b"x" * (256 * 1024)

    async def scenario(client):
        await agent.hello(client)
        answer = await client.post(SYNC_PATH, content=flood(), headers=agent.headers)
        assert code_of(answer) == (413, "too_large")

    run(scenario)
    assert len(sent) <= 6
