"""Large files between nodes and a real S3-compatible store, by URLs that the portal signs: what a
node sends counts once the portal has read it, and stays as it was then."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest

from agents.contract.calls import EPOCH_HEADER
from agents.contract.codec import encode
from agents.contract.direct_transfer import PART_BYTES, PARTS_PATH, PartsRequest
from agents.contract.file_transfer import FILE_PATH, TREES_PATH, TreeCommitRequest, TreeKind
from tests.environment.object_store import BUCKET, ObjectStore
from tests.services.stack import Stack, until
from tests.support.file_calls import sha256, tree_files

pytestmark = [pytest.mark.services, pytest.mark.slow, pytest.mark.timeout(900)]
METRICS_TOKEN = "metrics-" + secrets.token_hex(16)
DIRECT = {"TESSERA_DIRECT_TRANSFER": "yes", "TESSERA_METRICS_TOKEN": METRICS_TOKEN}


@dataclass
class Sender:
    """A node that sends one content, call by call."""

    web: Stack
    data: bytes

    def call(self, method: str, path: str, **call) -> httpx.Response:
        headers = {"Authorization": f"Agent {self.web.seeded['node']}", EPOCH_HEADER: "1"}
        params = {"replica": self.web.seeded["replica"]} | call.pop("params", {})
        url = self.web.url + path.format(sha256=sha256(self.data))
        return self.web.http.request(method, url, headers=headers, params=params, **call)

    def begin(self) -> None:
        """The first part, through the portal."""
        params = {"size": len(self.data), "offset": 0}
        assert self.call("PUT", FILE_PATH, params=params, content=self.data[:PART_BYTES]).is_success

    def count(self, end: int) -> dict:
        """What the portal says once the parts up to there are in the store."""
        request = PartsRequest(self.web.seeded["replica"], len(self.data), end)
        answer = self.call("POST", PARTS_PATH, json=encode(request))
        return answer.json()

    def put(self, part: dict, data: bytes = b"") -> httpx.Response:
        """To the store: what belongs there, or `data`."""
        start = part["offset"]
        return self.web.http.put(
            part["url"], content=data or self.data[start : start + part["size"]]
        )

    def stored(self) -> bytes:
        """Its bytes as a person gets them, in a tree of its own."""
        request = TreeCommitRequest(
            self.web.seeded["replica"], TreeKind.CHECKPOINT, tree_files({"w": self.data}), step=1
        )
        tree = self.call("POST", TREES_PATH, json=encode(request)).json()["tree"]
        headers = {"Authorization": f"Token {self.web.seeded['token']}"}
        url = f"{self.web.url}/api/v1/trees/{tree}/content?path=w"
        return self.web.http.get(url, headers=headers).content


@pytest.fixture(scope="module")
def web(tmp_path_factory, postgres_server, redis_server, object_store) -> Iterator[Stack]:
    home = tmp_path_factory.mktemp("direct")
    stack = Stack(
        var=home / "web",
        nodes=(),
        database_url=postgres_server.create_database(migrated=True),
        redis_url=redis_server.url(9),
        extra_env=object_store.environ | DIRECT | {"TESSERA_S3_PREFIX": home.name},
    )
    try:
        stack.seed("tests.services.seed_files")
        stack.start_web()
        yield stack
    finally:
        stack.__exit__()
        postgres_server.drop_database(stack.database_url)


def objects_of(store: ObjectStore, web: Stack) -> list[str]:
    """The keys below the prefix of the installation."""
    import boto3  # noqa: PLC0415
    from botocore.config import Config  # noqa: PLC0415

    client = boto3.client(
        "s3",
        endpoint_url=store.endpoint,
        region_name=store.environ["TESSERA_S3_REGION"],
        aws_access_key_id=store.environ["TESSERA_S3_ACCESS_KEY"],
        aws_secret_access_key=store.environ["TESSERA_S3_SECRET_KEY"],
        config=Config(s3={"addressing_style": "path"}),
    )
    prefix = web.extra_env["TESSERA_S3_PREFIX"]
    rows = client.list_objects_v2(Bucket=BUCKET, Prefix=f"{prefix}/files/").get("Contents", [])
    return [row["Key"] for row in rows]


def test_parts_count_as_far_as_they_arrived_and_are_fetched_from_the_store(web, object_store):
    sender = Sender(web, os.urandom(4 * PART_BYTES + 5))
    sender.begin()
    first, second, third, last = sender.count(0)["parts"]
    for part in (first, third):
        assert sender.put(part).is_success
    # The third has arrived and the second has not: nobody counts over a gap.
    answer = sender.count(len(sender.data))
    assert (answer["received"], answer["complete"]) == (2 * PART_BYTES, False)
    assert [part["offset"] for part in answer["parts"]] == [
        part["offset"] for part in (second, third, last)
    ]
    # A chunk through the portal goes on there, as after a store that went away.
    chunk = sender.data[2 * PART_BYTES : 3 * PART_BYTES]
    params = {"size": len(sender.data), "offset": 2 * PART_BYTES}
    assert sender.call("PUT", FILE_PATH, params=params, content=chunk).is_success
    assert sender.put(last).is_success
    done = sender.count(len(sender.data))
    assert (done["received"], done["complete"], done["parts"]) == (len(sender.data), True, [])
    # A repeated call changes nothing, and nothing more is to be sent.
    assert sender.count(len(sender.data)) == done
    assert sender.stored() == sender.data
    assert not [key for key in objects_of(object_store, web) if "arriving" in key]
    found, offset = b"", 0
    while offset < len(sender.data):
        answer = sender.call("GET", PARTS_PATH, params={"offset": offset}).json()
        found += b"".join(web.http.get(part["url"]).content for part in answer["parts"])
        assert len(found) > offset
        offset = len(found)
    assert found == sender.data


def test_a_url_takes_its_size_alone_and_no_other_request(web):
    sender = Sender(web, os.urandom(2 * PART_BYTES))
    sender.begin()
    (part,) = sender.count(0)["parts"]
    assert sender.put(part, b"x").status_code == 403
    assert sender.put(part, sender.data[:PART_BYTES] + b"x").status_code == 403
    assert web.http.get(part["url"]).status_code == 403
    assert web.http.delete(part["url"]).status_code == 403
    other = part | {"url": part["url"].replace("arriving-", "other-")}
    assert sender.put(other).status_code == 403
    assert sender.count(len(sender.data))["received"] == PART_BYTES


def test_other_bytes_do_not_count_and_what_counts_is_not_changed_later(web):
    wrong = Sender(web, os.urandom(2 * PART_BYTES))
    wrong.begin()
    (part,) = wrong.count(0)["parts"]
    assert wrong.put(part, os.urandom(PART_BYTES)).is_success
    assert wrong.count(len(wrong.data))["error"]["code"] == "hash_mismatch"
    assert wrong.count(0)["error"]["code"] == "file_incomplete", "all of it is forgotten"

    sender = Sender(web, os.urandom(2 * PART_BYTES))
    sender.begin()
    (part,) = sender.count(0)["parts"]
    assert sender.put(part).is_success
    assert sender.count(len(sender.data))["complete"]
    # The URL is good for minutes more, and leads to nothing that counts.
    assert sender.put(part, os.urandom(PART_BYTES)).is_success
    assert sender.stored() == sender.data


# Saves 12 MiB and ends; the retry checks what it is given.
PROGRAM = """
import json, os, pathlib, sys
home = pathlib.Path(os.environ["TESSERA_CHECKPOINT_DIR"])
weights = pathlib.Path({weights!r}).read_bytes()
if (home / "saved.json").exists():
    sys.exit(0 if (home / "weights").read_bytes() == weights else 2)
(home / "weights").write_bytes(weights)
(home / "saved.json.new").write_text(json.dumps({{"step": 1}}))
(home / "saved.json.new").rename(home / "saved.json")
sys.exit(1)
"""


@pytest.mark.parametrize("is_reached", [True, False], ids=["direct", "store away from nodes"])
def test_a_checkpoint_goes_to_the_store_and_back_and_else_through_the_portal(
    is_reached, tmp_path: Path, postgres_server, redis_server, object_store
):
    weights = tmp_path / "weights"
    weights.write_bytes(os.urandom(3 * PART_BYTES))
    endpoint = {} if is_reached else {"TESSERA_S3_NODE_ENDPOINT": "http://127.0.0.1:9"}
    database = postgres_server.create_database(migrated=True)
    stack = Stack(
        var=tmp_path / "stack",
        nodes=("node-a",),
        database_url=database,
        redis_url=redis_server.url(9),
        extra_env=object_store.environ | DIRECT | endpoint | {"TESSERA_S3_PREFIX": tmp_path.name},
    )
    with stack:
        program = PROGRAM.format(weights=str(weights))
        job = stack.submit(["python3", "-c", program])
        stack.until_status(job, "failed")
        trees = stack.call("GET", f"/jobs/{job}/trees")["results"]
        assert [tree["kind"] for tree in trees] == ["checkpoint"]
        again = stack.call("POST", f"/jobs/{job}/retry")["id"]
        assert stack.until_status(again, "succeeded", "failed")["status"] == "succeeded"
        log = stack.log("node-a")
        assert ("store_away" in log) is not is_reached
        assert "X-Amz-Signature" not in log + stack.log("web")
        calls = until(lambda: direct_calls(stack), what="the metrics of the web process")
        # To send: parts asked for, then counted; to fetch: asked for once.
        assert calls >= 3 if is_reached else calls >= 1
    postgres_server.drop_database(database)


def direct_calls(stack: Stack) -> int:
    headers = {"Authorization": f"Bearer {METRICS_TOKEN}"}
    lines = stack.http.get(f"{stack.url}/metrics", headers=headers).text.splitlines()
    own = [line for line in lines if 'call="file_parts"' in line and not line.startswith("#")]
    return int(sum(float(line.rpartition(" ")[2]) for line in own if "_created" not in line))
