"""A compromised node is thrown out by an admin (finding 2.4); a key in two machines is frozen."""

from datetime import timedelta

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from portal.agentapi import endpoint
from portal.agentapi.door import Door
from portal.audit.models import AuditEntry, Event
from portal.errors import Refused
from portal.inventory.models import JoinToken, Node
from portal.inventory.revocation import node_revoke, node_unfreeze
from portal.jobs.models import Attempt, Replica
from scheduler.core.model.states import NodeStatus
from scheduler.sweeper import sweep
from tests.support.agent_calls import Agent, a_join_token, an_agent, code_of, run
from tests.support.rows import a_job, a_node, a_project, a_user, settle

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def stopped_door(monkeypatch):
    door = Door(clock=lambda: 0.0)
    monkeypatch.setattr(endpoint, "door", lambda: door)


def later(node, **time):
    """As if that much time had passed since its lease began."""
    Node.objects.filter(pk=node.pk).update(lease_until=timezone.now() - timedelta(**time))


def test_finding_2_4_a_revoked_node_is_not_heard_any_more():
    agent = an_agent()
    a_join_token(agent.node)

    async def before(client):
        await agent.hello(client)
        assert (await agent.sync(client)).status_code == 200

    async def after(client):
        for _ in range(2):
            assert code_of(await agent.sync(client)) == (401, "token_invalid")
            assert code_of(await agent.log(client, "x", 0, b"x")) == (401, "token_invalid")
            assert code_of(await agent.hello(client)) == (401, "signature_invalid")

    run(before)
    node_revoke(node=agent.node, actor="root")
    run(after)
    node = Node.objects.get()
    assert (node.public_key, node.token_digest, node.replaced_token_digest) == ("", "", "")
    assert (node.status, node.schedulable, node.epoch) == (NodeStatus.LOST, False, 2)
    assert not JoinToken.objects.exists()
    line = AuditEntry.objects.get(action="node_revoke")
    assert (line.actor, line.noun_id) == ("root", node.name)
    assert Event.objects.filter(node=node, code="node_revoked", actor="root").count() == 1


@pytest.mark.parametrize("on_lease_end", ["stop", "keep"])
def test_finding_2_4_its_jobs_are_fenced_after_the_lease_and_retried_elsewhere(on_lease_end):
    """Also of a node that never says that its replicas have ended, and of one that says that it
    keeps them running: an admin has decided that it is not believed."""
    alice, evil = a_user("alice"), a_node("evil")
    job = a_job(alice, a_project("vision", alice))
    settle(evil)
    job.refresh_from_db()
    assert job.status == "running"
    retries = job.infrastructure_retries_left
    Node.objects.filter(pk=evil.row.pk).update(lease_until=timezone.now() + timedelta(minutes=5))
    evil.row.refresh_from_db()
    evil.row.facts["on_lease_end"] = on_lease_end
    evil.row.save(update_fields=["facts"])
    node_revoke(node=evil.row, actor="root")
    sweep()
    job.refresh_from_db()
    assert job.status == "running", "an honest agent may still be stopping it"
    later(evil.row, minutes=10)
    sweep()
    job.refresh_from_db()
    assert (job.status, job.infrastructure_retries_left) == ("queued", retries - 1)
    assert Attempt.objects.get().outcome == "lost"
    good = a_node("good")
    settle(good)
    job.refresh_from_db()
    assert job.status == "running"
    assert {r.node.name for r in Replica.objects.live().select_related("node")} == {"good"}


def test_a_new_join_token_brings_the_machine_back_and_it_stays_cordoned():
    agent = an_agent()
    node_revoke(node=agent.node, actor="root")
    new, ticket = Agent(node=agent.node), a_join_token(agent.node)

    async def scenario(client):
        assert (await new.enrol(client, ticket)).status_code == 200
        assert (await new.hello(client)).status_code == 200

    run(scenario)
    node = Node.objects.get()
    assert (node.status, node.schedulable, node.revoked_at) == (NodeStatus.ONLINE, False, None)


def test_a_retired_node_has_no_key_to_revoke():
    node = Node.objects.create(name="old", status=NodeStatus.RETIRED)
    with pytest.raises(Refused, match="node_retired"):
        node_revoke(node=node, actor="root")


def test_two_machines_with_one_key_freeze_it_until_an_admin_has_looked():
    agent = an_agent()

    async def cloned(client):
        assert (await agent.hello(client, boot_id="here")).status_code == 200
        assert (await agent.hello(client, boot_id="there")).status_code == 200
        token = agent.token
        assert code_of(await agent.hello(client, boot_id="here")) == (403, "node_frozen")
        assert code_of(await agent.hello(client, boot_id="there")) == (403, "node_frozen")
        agent.token = token
        assert code_of(await agent.sync(client)) == (409, "epoch_stale")
        # Without the key, nothing is learned.
        assert code_of(await Agent(node=agent.node).hello(client)) == (401, "signature_invalid")

    async def released(client):
        assert (await agent.hello(client, boot_id="here")).status_code == 200
        assert (await agent.sync(client)).status_code == 200

    run(cloned)
    node = Node.objects.get()
    assert node.frozen_at is not None
    line = AuditEntry.objects.get(action="node_freeze")
    assert line.after == {"first": "there", "second": "here"}
    assert Event.objects.filter(code="node_frozen").count() == 1
    node_unfreeze(node=node, actor="root")
    assert AuditEntry.objects.get(action="node_unfreeze").actor == "root"
    run(released)


def test_a_key_that_is_not_frozen_cannot_be_unfrozen():
    """The second of two admins reads that it was done; the history has one line."""
    node = an_agent().node
    with pytest.raises(Refused, match=r"The key of .* is not frozen") as refused:
        node_unfreeze(node=node, actor="root")
    assert (refused.value.code, refused.value.status) == ("node_not_frozen", 409)
    assert not Event.objects.filter(code="node_unfrozen").exists()
    assert not AuditEntry.objects.filter(action="node_unfreeze").exists()


def test_a_new_key_is_not_frozen_by_the_boots_under_the_old_one():
    agent = an_agent()
    new, ticket = Agent(node=agent.node), a_join_token(agent.node)

    async def scenario(client):
        for boot in ("here", "there"):
            assert (await agent.hello(client, boot_id=boot)).status_code == 200
        assert code_of(await agent.hello(client, boot_id="here")) == (403, "node_frozen")
        assert (await new.enrol(client, ticket)).status_code == 200
        assert (await new.hello(client, boot_id="here")).status_code == 200
        assert (await new.sync(client)).status_code == 200

    run(scenario)
    assert Node.objects.get().frozen_at is None


def test_reboots_freeze_nothing():
    agent = an_agent()

    async def scenario(client):
        for boot in ("one", "two", "two", "three", "three"):
            assert (await agent.hello(client, boot_id=boot)).status_code == 200

    run(scenario)


def test_a_boot_that_comes_back_after_a_while_freezes_nothing():
    """As in a virtual machine that was set back to an older state."""
    agent = an_agent()

    async def scenario(client):
        assert (await agent.hello(client, boot_id="one")).status_code == 200
        assert (await agent.hello(client, boot_id="two")).status_code == 200

    run(scenario)
    agent.node.nonces.update(seen_at=timezone.now() - timedelta(seconds=61))

    async def again(client):
        assert (await agent.hello(client, boot_id="one")).status_code == 200

    run(again)


def test_the_console_says_what_revoking_means_and_does_it():
    alice, node = a_user("alice"), a_node("evil")
    a_job(alice, a_project("vision", alice))
    settle(node)
    client = Client()
    client.force_login(a_user("root", is_superuser=True, is_staff=True))
    address = reverse("web:revoke", args=["evil"])
    assert address in client.get(reverse("web:node_list")).content.decode()
    assert "1 job runs on it" in client.get(address).content.decode()
    assert Node.objects.get().revoked_at is None
    assert client.post(address).status_code == 302
    assert Node.objects.get().revoked_at is not None
    assert "Its key was revoked" in client.get(reverse("web:node_list")).content.decode()
    Node.objects.update(frozen_at=timezone.now())
    assert "The key of 1 node is frozen" in client.get(reverse("web:console")).content.decode()
    client.post(reverse("web:unfreeze", args=["evil"]))
    assert Node.objects.get().frozen_at is None
