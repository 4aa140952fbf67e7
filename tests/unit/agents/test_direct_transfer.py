"""Large files between a node and the store itself; what does not go that way goes through the
portal, from where it stopped."""

from __future__ import annotations

import asyncio
import os

import httpx
import pytest

from agents.contract.direct_transfer import ContentPart
from agents.contract.errors import ContractError
from agents.contract.file_transfer import (
    MAX_FILE_CHUNK_BYTES,
    FileContent,
    TreeCommitRequest,
    TreeKind,
)
from agents.files.direct_store import AWAY_SECONDS, DirectStore, StoreAway
from agents.files.fetching import fetch_tree
from agents.files.file_calls import PortalAway
from agents.files.sending import send_tree
from agents.files.tree_reading import read_tree
from agents.portal.client import PortalOlder
from agents.portal.portal_file_calls import PortalFileCalls
from agents.route.portal_route import PortalRoute
from tests.support.files_in_memory import FilesInMemory

PART = MAX_FILE_CHUNK_BYTES


class StoreInMemory:
    """The store behind `portal.bucket`. `refused`: what it answers instead, request by request;
    0 for a connection that fails, None to do what it is asked. `ended`: parts whose first URL is
    good for nothing, by offset."""

    def __init__(self, portal: FilesInMemory, *refused: int | None) -> None:
        self.portal, self.refused = portal, list(refused)
        self.requests: list[str] = []
        self.ended: set[int] = set()
        self.seconds = 0.0
        transport = httpx.MockTransport(self.answer)
        portal.store = DirectStore(
            PortalRoute(("https://portal",)), transport, lambda: self.seconds
        )

    def answer(self, request: httpx.Request) -> httpx.Response:
        self.requests.append(request.method)
        refusal = self.refused.pop(0) if self.refused else None
        offset = int(request.url.path.rpartition("/")[2])
        if offset in self.ended:
            self.ended.remove(offset)
            refusal = 403
        if refusal == 0:
            raise httpx.ConnectError(f"no way to {request.url}")
        if refusal:
            return httpx.Response(refusal, text=str(request.url))
        if request.method == "PUT":
            self.portal.bucket[request.url.path] = request.content
            return httpx.Response(200)
        whole = self.portal.contents[request.url.path.split("/")[1]]
        return httpx.Response(200, content=whole[offset : offset + PART])


def no_pause(seconds: float) -> None:
    """Nothing waits."""


def send(portal, folder, **files):
    for name, data in files.items():
        (folder / name).write_bytes(data)
    request = TreeCommitRequest("r", TreeKind.OUTPUT, read_tree(folder).files)
    return portal.read(send_tree(portal, folder, request, no_pause))


def test_a_large_file_goes_to_the_store_after_its_first_part(tmp_path):
    portal = FilesInMemory()
    store = StoreInMemory(portal)
    large, small = os.urandom(4 * PART + 5), os.urandom(PART)
    assert send(portal, tmp_path, large=large, small=small) == {"large": large, "small": small}
    assert (portal.puts, store.requests) == (2, ["PUT"] * 4)


def test_a_transfer_that_was_cut_goes_on_at_its_part(tmp_path):
    portal = FilesInMemory()
    store = StoreInMemory(portal)
    large = os.urandom(4 * PART)
    (tmp_path / "large").write_bytes(large)
    (file,) = read_tree(tmp_path).files
    portal.contents[file.sha256] = large[: 2 * PART]
    assert send(portal, tmp_path) == {"large": large}
    assert (portal.puts, store.requests) == (0, ["PUT"] * 2)


def test_a_store_that_cannot_be_reached_is_left_for_a_while(tmp_path, caplog):
    portal = FilesInMemory()
    store = StoreInMemory(portal, *[0] * 9)
    files = {"one": os.urandom(3 * PART), "two": os.urandom(3 * PART)}
    assert send(portal, tmp_path, **files) == files
    assert portal.puts == 6 and len(store.requests) <= 2, "what was on its way is not sent again"
    (line,) = [record for record in caplog.records if record.message == "store_away"]
    assert line.why == "store: ConnectError", "no URL: it is a secret"
    store.seconds = AWAY_SECONDS
    store.requests, store.refused = [], []
    send(portal, tmp_path, three=os.urandom(2 * PART))
    assert store.requests == ["PUT"]


def test_urls_that_have_ended_are_replaced_and_a_refusal_is_not_repeated(tmp_path, caplog):
    portal = FilesInMemory()
    store = StoreInMemory(portal)
    store.ended = {4 * PART}
    large = os.urandom(5 * PART)
    assert send(portal, tmp_path, large=large) == {"large": large}
    assert portal.puts == 1 and store.requests == ["PUT"] * 5
    assert not caplog.records
    refused = FilesInMemory()
    other = StoreInMemory(refused, *[403] * 9)
    assert send(refused, tmp_path) == {"large": large}
    assert (refused.puts, len(other.requests) <= 2) == (5, True)
    assert "signed=" not in caplog.text and "store answered 403" in caplog.records[0].why


@pytest.mark.parametrize("refused", [(), (None, 403), (0,), (None, 500, 0)])
def test_a_large_file_is_fetched_from_the_store_as_far_as_it_answers(tmp_path, refused):
    portal = FilesInMemory()
    files = {"large": os.urandom(3 * PART + 1), "small": b"1"}
    tree = portal.has_stored(files)
    store = StoreInMemory(portal, *refused)
    fetch_tree(portal, "r", tree, tmp_path, pause=no_pause)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == files
    if not refused:
        assert store.requests == ["GET"] * 4


def test_what_a_store_has_changed_is_not_taken(tmp_path):
    portal = FilesInMemory()
    tree = portal.has_stored({"large": os.urandom(2 * PART)})
    StoreInMemory(portal)
    (name,) = portal.contents
    portal.contents[name] = os.urandom(2 * PART)
    with pytest.raises(ContractError, match="did not arrive"):
        fetch_tree(portal, "r", tree, tmp_path, pause=no_pause)


def test_plain_http_is_used_only_where_the_portal_is_called_so():
    part = ContentPart(0, 1, "http://store.example/bucket/key?signed=1")
    asked = []

    def answer(request: httpx.Request) -> httpx.Response:
        asked.append(str(request.url))
        return httpx.Response(200)

    for address in ("https://portal", "http://portal"):
        store = DirectStore(PortalRoute((address,)), httpx.MockTransport(answer))
        if address.startswith("https"):
            with pytest.raises(StoreAway, match=r"store\.example would be called by plain HTTP"):
                store.put(part, b"x")
        else:
            store.put(part, b"x")
    assert asked == [part.url]


class OlderClient:
    """Of a portal that offered it at hello, and whose other process does not know it yet."""

    has_direct_transfer = True

    async def parts_to_send(self, *_):
        raise PortalOlder("no such call")

    async def parts_to_fetch(self, *_):
        raise PortalOlder("no such call")


class CallsAtOnce:
    client = OlderClient()

    def answer(self, call, seconds):
        return asyncio.run(call)


def test_a_portal_that_is_half_updated_loses_no_file():
    """What a portal never takes is dropped; this one takes it as soon as all of it is new."""
    store = DirectStore(PortalRoute(("https://portal",)), httpx.MockTransport(httpx.Response))
    calls = PortalFileCalls(CallsAtOnce(), store)
    assert calls.store is store
    for ask in (
        lambda: calls.parts_to_send("r", FileContent("a" * 64, 2 * PART), PART),
        lambda: calls.parts_to_fetch("r", "a" * 64, 0),
    ):
        with pytest.raises(PortalAway, match="no such call"):
            ask()
    CallsAtOnce.client.has_direct_transfer = False
    assert calls.store is None
