"""Which URLs of the store nodes get, and which they are refused."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from urllib.parse import parse_qs, urlsplit

import pytest
from django.conf import settings
from django.core.files.base import ContentFile
from django.core.files.storage import InMemoryStorage
from django.test import override_settings

from agents.contract.codec import encode
from agents.contract.direct_transfer import PART_BYTES, PARTS_PATH, PartsRequest
from agents.contract.file_transfer import FileContent
from portal.files import direct
from portal.files.direct import parts_count
from portal.files.models import StoredFile
from portal.files.receiving import FileChunk, chunk_append
from portal.storage.direct import DirectBucket
from portal.storage.models import Segment
from portal.storage.objects import ObjectStore
from tests.support.agent_calls import an_agent, code_of, run
from tests.support.file_calls import FileSender, a_sender, sha256
from tests.support.replica_rows import a_replica
from tests.support.rows import a_project

pytestmark = pytest.mark.django_db(transaction=True)
WHOLE = bytes(range(256)) * 65_537
NAME, SIZE = sha256(WHOLE), len(WHOLE)
BUCKET = {
    "s3_bucket": "bucket",
    "s3_prefix": "site",
    "s3_endpoint": "http://127.0.0.1:9",
    "s3_node_endpoint": "https://store.example",
    "s3_region": "r",
    "s3_access_key": "key",
    "s3_secret_key": "canary",
    "direct_transfer": True,
}


def with_bucket(**changes):
    return override_settings(PLATFORM=replace(settings.PLATFORM, **(BUCKET | changes)))


async def send_parts(sender: FileSender, end: int, size: int = SIZE, name: str = NAME):
    request = PartsRequest(sender.replica, size, end)
    path = PARTS_PATH.format(sha256=name)
    return await sender.client.post(path, json=encode(request), headers=sender.agent.headers)


async def fetch_parts(sender: FileSender, name: str = NAME, offset: int = 0):
    params = {"replica": sender.replica, "offset": offset}
    path = PARTS_PATH.format(sha256=name)
    return await sender.client.get(path, params=params, headers=sender.agent.headers)


def test_it_is_offered_only_with_a_bucket_and_where_the_setting_says_so():
    agent = an_agent()

    async def scenario(client):
        for changes, is_offered in (
            ({}, True),
            ({"direct_transfer": False}, False),
            ({"s3_bucket": ""}, False),
        ):
            with with_bucket(**changes):
                hello = (await agent.hello(client)).json()
            assert hello.get("direct_transfer", False) is is_offered

    run(scenario)


def test_the_portal_decides_key_size_and_time_of_a_url_and_counts_nothing_by_itself():
    agent = an_agent()
    replica = a_replica(agent.node)

    async def scenario(client):
        await agent.hello(client)
        sender = a_sender(client, agent, replica)
        assert code_of(await send_parts(sender, 0)) == (409, "file_incomplete")
        part = {"name": NAME, "size": SIZE}
        await sender.put(WHOLE[:PART_BYTES], 0, **part)
        off = (await send_parts(sender, SIZE)).json()
        assert off == {"received": PART_BYTES, "complete": False, "parts": []}
        with with_bucket():
            answer = (await send_parts(sender, 0)).json()
        assert (answer["received"], answer["complete"]) == (PART_BYTES, False)
        sizes = [(one["offset"], one["size"]) for one in answer["parts"]]
        assert sizes == [(start, min(PART_BYTES, SIZE - start)) for start, _ in sizes]
        assert sizes[0][0] == PART_BYTES and sum(sizes[-1]) == SIZE
        url = urlsplit(answer["parts"][0]["url"])
        query = {name: values[0] for name, values in parse_qs(url.query).items()}
        assert (url.scheme, url.netloc) == ("https", "store.example")
        (stream,) = {row.stream async for row in StoredFile.objects.all()}
        assert url.path == f"/bucket/site/{stream}/arriving-{PART_BYTES}"
        assert query["X-Amz-SignedHeaders"] == "content-length;host"
        assert int(query["X-Amz-Expires"]) <= 300
        signed_at = datetime.strptime(query["X-Amz-Date"], "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC)
        assert abs(datetime.now(UTC) - signed_at) < timedelta(minutes=2)
        assert "canary" not in str(answer)

    run(scenario)
    assert Segment.objects.count() == 1


def test_a_node_gets_no_urls_for_what_it_may_not_read_or_write():
    agent, other = an_agent(), an_agent()
    mine, theirs = a_replica(agent.node), a_replica(other.node)

    async def scenario(client):
        for one in (agent, other):
            await one.hello(client)
        await a_sender(client, other, theirs).save({"w": WHOLE[: PART_BYTES // 2]}, step=1)
        name, size = sha256(WHOLE[: PART_BYTES // 2]), PART_BYTES // 2
        with with_bucket():
            intruder = FileSender(agent, client, theirs.pk)
            for answer in (await send_parts(intruder, 0), await fetch_parts(intruder, name)):
                assert code_of(answer) == (404, "replica_unknown")
            own = a_sender(client, agent, mine)
            assert code_of(await fetch_parts(own, name)) == (404, "file_unknown")
            assert code_of(await send_parts(own, 0, size, name)) == (409, "file_incomplete")
            # What lies in a folder is fetched through the portal.
            found = await fetch_parts(a_sender(client, other, theirs), name)
            assert found.json() == {"parts": []}
            beyond = await fetch_parts(a_sender(client, other, theirs), name, size + 1)
            assert code_of(beyond) == (400, "invalid_field")

    run(scenario)


class BucketInMemory(InMemoryStorage):
    """`before_copy` is called once, before the next copy."""

    before_copy = None

    def copy(self, source: str, target: str) -> None:
        before, self.before_copy = self.before_copy, None
        if before:
            before()
        with self.open(source) as file:
            self.save(target, ContentFile(file.read()))


def test_a_part_that_another_call_has_counted_meanwhile_is_not_missing(monkeypatch):
    """Two ranks send the same file, or a call is repeated while the first one goes on."""
    project, content, storage = a_project("vision").pk, FileContent(NAME, SIZE), BucketInMemory()
    bucket = DirectBucket(ObjectStore("bucket", "memory", storage, (OSError,)), None)
    monkeypatch.setattr(direct, "direct_bucket", lambda: bucket)
    row = chunk_append(FileChunk(project, content, 0, WHOLE[:PART_BYTES]))
    for offset in range(PART_BYTES, SIZE, PART_BYTES):
        part = ContentFile(WHOLE[offset : offset + PART_BYTES])
        storage.save(f"{row.stream}/arriving-{offset}", part)
    second = 2 * PART_BYTES
    storage.before_copy = lambda: parts_count(project_id=project, content=content, end=second)
    row = parts_count(project_id=project, content=content, end=SIZE)
    assert row.received_bytes == SIZE
    sizes = Segment.objects.order_by("start").values_list("size", flat=True)
    assert sum(sizes) == SIZE and len(sizes) == len(range(0, SIZE, PART_BYTES))
    left = storage.listdir(row.stream)[1]
    assert len(left) == len(sizes) - 1 and not [name for name in left if "arriving" in name]
