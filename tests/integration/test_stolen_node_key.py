"""What the key of one node, or no key at all, can do to the rows of others: nothing.

The cases are generated: every call of an agent, against every row that another node has.
"""

import asyncio
import json
from dataclasses import dataclass

import pytest
from django.apps import apps

from agents.contract.calls import (
    ENROL_PATH,
    HELLO_PATH,
    SYNC_PATH,
    TELEMETRY_PATH,
    EventType,
)
from agents.contract.documents import (
    GpuMode,
    ObservedGpu,
    ObservedReplica,
    ObservedSlice,
    ReplicaState,
    SliceProblem,
)
from portal.agentapi import endpoint
from portal.agentapi.door import Door
from portal.allocations.models import Allocation
from portal.audit.models import AuditEntry, Event
from portal.desired.services import node_drive
from portal.inventory.models import DisputedClaim, Gpu, LatestSample, Node, Slice, SlotClaim
from portal.jobs.models import Attempt, Job, Replica
from portal.storage.models import Segment
from scheduler.tasks import plan_once
from tests.support.agent_calls import Agent, a_join_token, an_agent, run
from tests.support.rows import HonestNode, a_job, a_node, a_project, a_user, settle

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("one_minute")]

SECRET = "hf_of_another_project"
MIB = 1 << 20


@pytest.fixture(autouse=True)
def open_door(monkeypatch):
    """One that turns nobody away for calling often: every case gets its own refusal."""
    monkeypatch.setattr(endpoint, "door", Door)


@dataclass
class World:
    """A node with a running job on a slice, and the agent of another node, whose key was stolen."""

    victim: HonestNode
    thief: Agent
    job: Job
    replica: Replica
    device: Slice
    ticket: str = ""

    @property
    def uuid(self):
        return self.victim.uuid(0)

    def rows(self):
        """Every foreign row, column by column."""
        own = {"node": self.victim.row.pk}
        found = [
            Node.objects.filter(pk=self.victim.row.pk),
            Gpu.objects.filter(**own),
            Slice.objects.filter(gpu__uuid=self.uuid),
            SlotClaim.objects.filter(gpu__uuid=self.uuid),
            Replica.objects.filter(**own),
            Attempt.objects.filter(job=self.job),
            Job.objects.filter(pk=self.job.pk),
            Allocation.objects.filter(replica__node=self.victim.row),
            Event.objects.filter(job=self.job),
            LatestSample.objects.filter(gpu__uuid=self.uuid),
            Segment.objects.all(),
        ]
        return {rows.model.__name__: list(rows.order_by("pk").values()) for rows in found}


def a_theft() -> World:
    alice, victim = a_user("alice"), a_node("victim")
    job = a_job(alice, a_project("vision", alice), env={"HF_TOKEN": SECRET})
    settle(victim)
    job.refresh_from_db()
    assert job.status == "running"
    (allocation,) = Allocation.objects.select_related("slice", "replica")
    return World(victim, an_agent(name="evil"), job, allocation.replica, allocation.slice)


def reports(world: World):
    """By name, the fields of a report about each foreign row, in every state that it may claim."""
    device, replica = world.device, world.replica
    place = {"profile": device.profile, "start": device.start, "size": device.size}
    for mode in GpuMode:
        yield f"gpu as {mode}", {"gpus": (ObservedGpu(world.uuid, mode=mode),)}
    yield "gpu as sick", {"gpus": (ObservedGpu(world.uuid, healthy=False),)}
    yield "gpu in use", {"gpus": (ObservedGpu(world.uuid, busy="python"),)}
    yield "slice made again", {"slices": (ObservedSlice(world.uuid, **place, uuid="MIG-other"),)}
    both = {"gpus": (ObservedGpu(world.uuid, mode=GpuMode.MIG),)}
    yield "gpu with slice", both | {"slices": (ObservedSlice(world.uuid, **place, uuid="MIG-x"),)}
    for state in ReplicaState:
        for code in (None, 0, 1):
            observed = ObservedReplica(
                id=str(replica.pk),
                job=world.job.label,
                attempt=1,
                fence=replica.attempt_id,
                state=state,
                exit_code=code,
            )
            yield f"replica {state} {code}", {"replicas": (observed,)}
    problem = SliceProblem(world.uuid, str(device.pk), "in_use", "not true")
    yield "problem", {"problems": (problem,)}


async def sync_reports(world, client):
    for name, fields in reports(world):
        answer = await world.thief.sync(client, observed=world.thief.observed(**fields))
        yield f"sync: {name}", answer


async def sync_names_another_node(world, client):
    document = Agent(node=world.victim.row).observed()
    yield "sync: as the other node", await world.thief.sync(client, observed=document)


async def sync_events(world, client):
    for seq, kind in enumerate(EventType, start=1):
        event = {"seq": seq, "type": kind, "at": "now", "replica": str(world.replica.pk)}
        event["fence"] = world.replica.attempt_id
        yield f"event: {kind}", await world.thief.sync(client, events=[event])


async def sync_revisions(world, client):
    for revision in (0, 1, world.victim.row.revision, 2**62):
        yield f"revision: {revision}", await world.thief.sync(client, applied_revision=revision)


async def telemetry(world, client):
    body = {"epoch": world.thief.epoch, "samples": [{"uuid": world.uuid, "power_mw": 1}]}
    answer = await client.post(TELEMETRY_PATH, json=body, headers=world.thief.headers)
    yield "telemetry: gpu", answer


async def logs(world, client):
    for offset in (0, 1, 2**40):
        yield f"log: {offset}", await world.thief.log(client, world.replica.pk, offset, b"forged")


async def greetings(world, client):
    forged = Agent(key=world.thief.key, node=world.victim.row)
    yield "hello: as the other node", await forged.hello(client)
    yield "enrol: as the other node", await forged.enrol(client, world.ticket)


async def foreign_tokens(world, client):
    secret = world.thief.token.partition(".")[2]
    forged = Agent(node=world.victim.row, token=f"{world.victim.row.pk.hex}.{secret}", epoch=1)
    yield "token: sync", await forged.sync(client)
    yield "token: log", await forged.log(client, world.replica.pk, 0, b"forged")
    sample = {"epoch": 1, "samples": [{"uuid": world.uuid}]}
    yield (
        "token: telemetry",
        await client.post(TELEMETRY_PATH, json=sample, headers=forged.headers),
    )


CALLS = {
    call.__name__: call
    for call in (
        sync_reports,
        sync_names_another_node,
        sync_events,
        sync_revisions,
        telemetry,
        logs,
        greetings,
        foreign_tokens,
    )
}
# Calls that are taken, because they are about the thief's own node as well.
TAKEN = {"sync_reports", "sync_events", "sync_revisions"}


@pytest.mark.parametrize("name", CALLS)
def test_a_stolen_node_key_moves_no_foreign_row(name):
    world = a_theft()
    world.ticket = a_join_token(world.thief.node)
    before, answers = world.rows(), []

    async def scenario(client):
        assert (await world.thief.hello(client)).status_code == 200
        async for case, answer in CALLS[name](world, client):
            answers.append((case, answer.status_code, answer.text))

    run(scenario)
    assert world.rows() == before
    assert answers
    statuses = {status for _, status, _ in answers}
    assert statuses <= ({200, 400} if name in TAKEN else {400, 401, 404}), answers
    assert not [case for case, _, text in answers if SECRET in text]
    # Nor does the planner believe any of it.
    plan_once()
    node_drive(node_id=world.thief.node.pk)
    node_drive(node_id=world.victim.row.pk)
    thief = Node.objects.get(pk=world.thief.node.pk)
    assert SECRET not in json.dumps(thief.desired)
    assert world.rows() == before
    assert not Gpu.objects.filter(node=thief).exists()
    if name == "sync_reports":
        assert DisputedClaim.objects.get().claimant == thief
        assert AuditEntry.objects.filter(action="gpu_claim").count() == 1


def nested():
    depth = MIB // 6
    return b'{"a":' * depth + b"1" + b"}" * depth


def long():
    return json.dumps({"node": "n" * MIB}).encode()


def deep():
    return b"[" * MIB


def wide():
    return json.dumps({f"field_{n}": n for n in range(MIB // 20)}).encode()


def many():
    return json.dumps({"observed": {"replicas": [{}] * (MIB // 4)}}).encode()


def no_json():
    return b"\xff\x00" * (MIB // 2)


BODIES = (nested, long, deep, wide, many, no_json)
LOG = "/agent/v1/replicas/00000000-0000-0000-0000-000000000000/log?offset=0"
PATHS = (
    ("POST", SYNC_PATH),
    ("POST", TELEMETRY_PATH),
    ("PUT", LOG),
    ("POST", HELLO_PATH),
    ("POST", ENROL_PATH),
    ("POST", "/agent/v1/no-such-call"),
)


def everything():
    """All rows of all tables."""
    return {
        model.__name__: list(model.objects.order_by("pk").values())
        for model in apps.get_models()
        if model._meta.managed
    }


@pytest.mark.parametrize(("method", "path"), PATHS)
@pytest.mark.parametrize("key", ["no key", "a node's key"])
def test_a_mib_of_any_json_is_refused_and_moves_nothing(method, path, key):
    agent = an_agent()
    answers, before = [], []

    async def scenario(client):
        if key != "no key":
            await agent.hello(client)
        before.append(await asyncio.to_thread(everything))
        for body in BODIES:
            data = body()
            # 1 MiB and a little is the limit itself: a little less is read.
            for content in (data, data[: MIB - 1]):
                headers = agent.headers if key != "no key" else {}
                answer = await client.request(method, path, content=content, headers=headers)
                error = answer.json()["error"]
                answers.append((body.__name__, answer.status_code, error["code"]))
                assert error["sentence"] and len(answer.content) < 1_000

    run(scenario)
    after = everything()
    # The refusals themselves are one line of the audit trail.
    refusals = after.pop("AuditEntry")[len(before[0].pop("AuditEntry")) :]
    assert {line["action"] for line in refusals} <= {"agent_token_refused"} and len(refusals) <= 1
    assert after == before[0]
    statuses = {status for _, status, _ in answers}
    if key == "no key":
        allowed = {401} if path in (SYNC_PATH, TELEMETRY_PATH, LOG) else {404, 413}
    else:
        allowed = {400, 404, 413}
    assert statuses <= allowed, answers
