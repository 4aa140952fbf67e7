"""An open cluster page hears of reports and of new samples, at a bounded rate."""

import asyncio
from contextlib import aclosing
from datetime import timedelta

import pytest
from django.db import connection
from django.utils import timezone

from agents.contract.codec import encode
from agents.contract.telemetry import GpuSample
from portal.inventory.models import Gpu, LatestSample
from portal.live.listener import listener
from portal.web.cluster import stream
from portal.web.page_parts import PageFace, StreamPace
from tests.support.rows import a_node, a_user

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def hurried(monkeypatch):
    """The same loop without its waits."""
    monkeypatch.setattr(
        stream, "PACE", StreamPace(min_seconds=0, max_seconds=0, read_time_factor=0)
    )


async def stream_events(user, changes, language: str = "en") -> list[str]:
    """The first event, then one after each change."""
    found = []
    async with aclosing(stream.cluster_events(user, PageFace(language, ""), {})) as events:
        assert (await anext(events)).startswith("retry: ")
        found.append(await anext(events))
        for change in changes:
            await asyncio.to_thread(_closing, change)
            found.append(await anext(events))
    await listener().close()
    return found


def _closing(change) -> None:
    try:
        change()
    finally:
        connection.close()


def test_a_new_sample_and_a_new_fault_reach_an_open_page():
    olga, node = a_user("olga"), a_node("n1")
    taken_at = timezone.now() - timedelta(hours=2)

    def sample():
        gpu = Gpu.objects.get()
        row = GpuSample(uuid=gpu.uuid, temperature_c=77)
        LatestSample.objects.create(gpu=gpu, taken_at=taken_at, sample=encode(row))

    def fault():
        node.faults = {0: "XID 79"}
        node.report()

    first, second, third = asyncio.run(stream_events(olga, [sample, fault]))
    assert "\nevent: page\n" in first
    assert "1 GPU free now" in first
    assert "°C" not in first
    assert "77\N{NO-BREAK SPACE}°C" in second
    assert "Nothing is free now" in third
    assert "GPU 0: XID 79" in third


def test_where_nothing_changed_only_a_beat_is_sent():
    olga = a_user("olga")
    a_node("n1")
    first, second = asyncio.run(stream_events(olga, [lambda: None]))
    assert "\nevent: page\n" in first
    assert second.startswith("event: beat\n")
    assert "<" not in second


def test_the_stream_speaks_the_language_of_its_page():
    olga = a_user("olga")
    a_node("n1")
    (first,) = asyncio.run(stream_events(olga, [], language="zh-hans"))
    assert "空闲" in first


def test_every_part_of_the_stream_has_its_place_on_the_page(client):
    olga = a_user("olga")
    a_node("n1")
    client.force_login(olga)
    page = client.get("/cluster/").content.decode()
    (first,) = asyncio.run(stream_events(olga, []))
    parts = [piece.split('"')[1] for piece in first.split(" data-part=")[1:]]
    assert parts == ["head", "summary", "badge-n1", "node-n1", "table"]
    for part in parts:
        assert page.count(f'data-part="{part}"') == 1
    assert 'data-stream="/cluster/stream"' in page


def test_the_stream_is_refused_without_signing_in(client):
    assert client.get("/cluster/stream").status_code == 401
