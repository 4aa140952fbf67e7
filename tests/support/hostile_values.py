"""Values that an attacker, or another program by mistake, puts into Redis."""

from __future__ import annotations

import base64
import os
import pickle
from collections.abc import Callable, Iterator
from pathlib import Path

import redis

DEEP = 200_000


class CommandWhenRead:
    """Unpickling it runs a shell command."""

    def __init__(self, command: str) -> None:
        self._command = command

    def __reduce__(self) -> tuple[Callable[[str], int], tuple[str]]:
        return os.system, (self._command,)


def hostile_texts(marker: Path) -> Iterator[tuple[str, bytes]]:
    """Strings by name. The pickles make the file `marker`, if anybody reads them."""
    bomb = CommandWhenRead(f"touch '{marker}'")
    for protocol in (0, pickle.HIGHEST_PROTOCOL):
        yield f"pickle {protocol}", pickle.dumps(bomb, protocol)
    yield "pickled list", pickle.dumps([1.0, bomb])
    yield "nothing", b""
    yield "no UTF-8", b"\xff\xfe\x00"
    yield "half JSON", b'{"a": [1, 2'
    yield "object", b'{"idp": {"x509cert": "mine"}}'
    yield "null", b"null"
    yield "text", b'"text"'
    yield "list of texts", b'["a", "b"]'
    yield "list of lists", b"[[1.0]]"
    yield "far future", b"[1e300, 1e300]"
    yield "not a number", b"[NaN, Infinity]"
    yield "many times", b"[" + b",".join([b"1.0"] * 100_000) + b"]"
    yield "deep JSON", b"[" * DEEP + b"]" * DEEP
    yield "deep object", b'{"a":' * DEEP + b"1" + b"}" * DEEP
    yield "many digits", b"9" * 5_000
    yield "largest count", str((1 << 63) - 1).encode()
    yield "count without an end", b"1000000000"
    yield "8 MiB", b"x" * (8 << 20)


def plant_wrong_types(client: redis.Redis, key: str) -> Iterator[str]:
    """Put each other type of Redis at `key` in turn; yields its name."""
    plants: dict[str, Callable[[], object]] = {
        "hash": lambda: client.hset(key, "field", "value"),
        "list": lambda: client.rpush(key, "item"),
        "set": lambda: client.sadd(key, "member"),
        "sorted set": lambda: client.zadd(key, {"member": 1.0}),
        "stream": lambda: client.xadd(key, {"field": "value"}),
    }
    for name, plant in plants.items():
        client.delete(key)
        plant()
        yield name


def hostile_messages(marker: Path) -> Iterator[tuple[str, bytes]]:
    """Items of a Celery queue by name."""
    yield from hostile_texts(marker)
    yield "no properties", b'{"body": "e30=", "headers": {}}'
    yield "a list", b"[1, 2, 3]"
    envelope = (
        '{"body": %s, "content-encoding": "binary", "content-type": "%s", "headers": %s, '
        '"properties": {"delivery_tag": "%s", "body_encoding": "base64", "delivery_info": {}}}'
    )
    pickled = '"' + pickle_base64(marker) + '"'
    mail = '{"lang": "py", "task": "scheduler.tasks.plan", "id": "1"}'
    rows = {
        "pickled task": (pickled, "application/x-python-serialize", mail),
        "pickled, labelled as JSON": (pickled, "application/json", mail),
        "unknown task": ('"W1tdLHt9LHt9XQ=="', "application/json", '{"task": "os.system"}'),
        "no task": ('"W1tdLHt9LHt9XQ=="', "application/json", "{}"),
        "headers of another kind": ('"e30="', "application/json", "[1]"),
        "time limits of another kind": (
            '"W1tdLHt9LHt9XQ=="',
            "application/json",
            '{"task": "scheduler.tasks.plan", "id": "2", "timelimit": "x", "eta": {}}',
        ),
    }
    for number, (name, fields) in enumerate(rows.items()):
        yield name, (envelope % (*fields, number)).encode()


def pickle_base64(marker: Path) -> str:
    return base64.b64encode(pickle.dumps(CommandWhenRead(f"touch '{marker}'"))).decode()
