"""Samples of sensors: the latest is kept, of the node's own GPUs, at a bounded rate."""

import asyncio
from datetime import timedelta

import pytest
from django.conf import settings
from django.utils import timezone

from agents.contract.calls import TELEMETRY_PATH
from agents.contract.codec import decode, encode
from agents.contract.documents import ObservedGpu
from agents.contract.telemetry import (
    GpuSample,
    MissingReason,
    MissingValue,
    SliceSample,
    TelemetryRequest,
)
from portal.inventory.models import LatestSample, Node
from tests.support.agent_calls import Agent, an_agent, run

pytestmark = pytest.mark.django_db(transaction=True)


def a_sample(uuid: str = "GPU-1", **fields) -> GpuSample:
    return GpuSample(**{"uuid": uuid, "power_mw": 75_000, "utilization_percent": 12} | fields)


async def start(agent: Agent, client, *uuids: str) -> None:
    """Hello, and one report of these GPUs."""
    await agent.hello(client)
    gpus = tuple(ObservedGpu(uuid, index) for index, uuid in enumerate(uuids or ("GPU-1",)))
    assert (await agent.sync(client, observed=agent.observed(gpus=gpus))).status_code == 200


async def send(agent: Agent, client, *samples: GpuSample, **fields):
    body = encode(TelemetryRequest(agent.epoch, samples)) | fields
    return await client.post(TELEMETRY_PATH, json=body, headers=agent.headers)


def a_while_later(agent: Agent) -> None:
    """As if the last call were old enough."""
    before = timezone.now() - timedelta(seconds=settings.PLATFORM.telemetry_seconds + 1)
    Node.objects.filter(pk=agent.node.pk).update(telemetry_at=before)


def test_the_latest_sample_of_each_gpu_is_kept_whole():
    agent = an_agent()
    piece = SliceSample("MIG-1", 7, "1g.18gb", memory_used_mib=3)
    missing = (MissingValue("utilization_percent", MissingReason.MIG_MODE),)
    newer = a_sample(utilization_percent=None, slices=(piece,), missing=missing)

    async def scenario(client):
        await start(agent, client, "GPU-1", "GPU-2")
        answer = await send(agent, client, a_sample(), a_sample("GPU-2"))
        assert answer.json() == {"next_seconds": settings.PLATFORM.telemetry_seconds}
        await asyncio.to_thread(a_while_later, agent)
        assert (await send(agent, client, newer)).status_code == 200

    run(scenario)
    kept = {row.gpu.uuid: decode(GpuSample, row.sample) for row in LatestSample.objects.all()}
    assert kept == {"GPU-1": newer, "GPU-2": a_sample("GPU-2")}


def test_a_samples_time_is_ours_less_the_age_that_the_node_gives():
    agent = an_agent()

    async def scenario(client):
        await start(agent, client)
        assert (await send(agent, client, a_sample(), age_ms=3_600_000)).status_code == 200

    before = timezone.now() - timedelta(hours=1)
    run(scenario)
    after = timezone.now() - timedelta(hours=1)
    assert before <= LatestSample.objects.get().taken_at <= after


def test_a_call_too_soon_after_another_is_refused_and_says_when():
    agent = an_agent()

    async def scenario(client):
        await start(agent, client)
        await send(agent, client, a_sample())
        answer = await send(agent, client, a_sample(power_mw=1))
        assert (answer.status_code, answer.json()["error"]["code"]) == (429, "too_frequent")
        assert 1 <= answer.json()["error"]["retry_seconds"] <= settings.PLATFORM.telemetry_seconds

    run(scenario)
    assert LatestSample.objects.get().sample["power_mw"] == 75_000


def test_of_calls_at_once_one_is_taken():
    agent = an_agent()

    async def scenario(client):
        await start(agent, client)
        answers = await asyncio.gather(*(send(agent, client, a_sample()) for _ in range(4)))
        assert sorted(answer.status_code for answer in answers) == [200, 429, 429, 429]

    run(scenario)


def test_a_node_sends_for_its_own_gpus_only():
    agent, other = an_agent(), an_agent()

    async def scenario(client):
        await start(other, client, "GPU-others")
        await start(agent, client, "GPU-1")
        for foreign in ("GPU-others", "GPU-nobodys"):
            answer = await send(agent, client, a_sample(), a_sample(foreign))
            assert answer.status_code == 400
            assert answer.json()["error"]["field"] == "samples.uuid"

    run(scenario)
    assert not LatestSample.objects.exists()


@pytest.mark.parametrize(
    "fields",
    [
        {"samples": [encode(a_sample()), encode(a_sample())]},
        {"samples": [{"uuid": "GPU-1", "utilization_percent": 101}]},
        {"samples": [{"uuid": "GPU-1", "power_mw": -1}]},
        {"samples": [{"uuid": "GPU-1", "power_mw": 1.5}]},
        {"samples": [{"uuid": "GPU-1", "fan": 1}]},
        {"samples": [{"uuid": "GPU-1", "missing": [{"name": "x", "why": "no_such"}]}]},
        {"samples": [{"uuid": "GPU-1", "missing": [{"name": "<b>", "why": "other"}]}]},
        {"samples": [encode(a_sample(f"GPU-{n}")) for n in range(65)]},
        {"age_ms": -1},
        {"epoch": "1"},
    ],
)
def test_what_cannot_be_is_refused_and_nothing_of_it_is_kept(fields):
    agent = an_agent()

    async def scenario(client):
        await start(agent, client)
        assert (await send(agent, client, a_sample(), **fields)).status_code == 400

    run(scenario)
    assert not LatestSample.objects.exists()


def test_an_agent_that_was_replaced_or_is_unknown_is_turned_away():
    agent = an_agent()

    async def scenario(client):
        await start(agent, client)
        stale = agent.headers
        body = encode(TelemetryRequest(agent.epoch, (a_sample(),)))
        await agent.hello(client)
        answer = await client.post(TELEMETRY_PATH, json=body, headers=stale)
        assert answer.json()["error"]["code"] == "epoch_stale"
        answer = await client.post(TELEMETRY_PATH, json=body)
        assert answer.json()["error"]["code"] == "token_invalid"

    run(scenario)
    assert not LatestSample.objects.exists()
