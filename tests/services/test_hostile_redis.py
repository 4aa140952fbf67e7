"""Finding 2.2 of the security review: a writer to Redis can wake and delay, but runs nothing.

Hostile values are planted in every key that the portal reads: the counts of sign-ins and calls, the
channel of bells, and the queues of Celery.
"""

from __future__ import annotations

import asyncio
import json
import threading
import uuid
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import redis
from django.core.cache import cache, caches
from django.test import Client

from portal import shared_cache
from portal.live import pending
from portal.live.bell import CHANNEL, ring
from portal.live.listener import listener, subscribe
from portal.shared_cache import RedisWithLocalFallback, cache_settings
from portal.tunnel import registry
from tests.environment.compose_redis import COMPOSE, ComposeRedis, running_compose_redis
from tests.environment.debian import REDIS
from tests.environment.levels import skip_without
from tests.environment.programs import free_port
from tests.environment.redis import RedisServer
from tests.integration.calling import let_through
from tests.services.stack import Stack, until
from tests.support.hostile_values import hostile_messages, hostile_texts, plant_wrong_types
from tests.support.rows import a_user

pytestmark = pytest.mark.services
COUNTS, BELLS = 10, 11
SIGN_IN = {"username": "olga", "password": "pw"}


@pytest.fixture
def planted(settings, redis_server: RedisServer, monkeypatch) -> Iterator[redis.Redis]:
    """A stranger's client of the Redis that Django counts in."""
    monkeypatch.setattr(RedisWithLocalFallback, "away_until", 0.0)
    settings.CACHES = cache_settings(redis_server.url(COUNTS), Path())
    with redis.Redis.from_url(redis_server.url(COUNTS)) as client:
        client.flushdb()
        yield client
    shared_cache._client.cache_clear()


def counted_keys(client: redis.Redis) -> list[bytes]:
    """The keys that a sign-in with a wrong password leaves."""
    Client().post("/sign-in/", SIGN_IN | {"password": "not hers"})
    keys = sorted(client.keys("*"))
    assert any(b"login_failed" in key for key in keys), keys
    # A lock is there only while an attempt is being counted.
    return [*keys, *(key + b":lock" for key in keys)]


@pytest.mark.slow
@pytest.mark.soak
@pytest.mark.django_db
def test_a_planted_value_runs_nothing_and_signing_in_goes_on(planted, tmp_path, caplog):
    a_user("olga")
    marker = tmp_path / "PWNED"
    for key in counted_keys(planted):
        for name, text in hostile_texts(marker):
            for seconds in (None, 60):
                # Not the 61st attempt of a minute.
                planted.flushdb()
                planted.set(key, text, ex=seconds)
                if key.endswith(b":lock") and seconds:
                    # As long as it says, as if a process of ours held it.
                    continue
                answer = Client(raise_request_exception=False).post("/sign-in/", SIGN_IN)
                assert answer.status_code == 302, (key, name, answer.content)
                assert not marker.exists(), (key, name)
        for name in plant_wrong_types(planted, key.decode()):
            answer = Client(raise_request_exception=False).post("/sign-in/", SIGN_IN)
            assert answer.status_code == 302, (key, name)
    assert "not of this portal" in caplog.text
    assert "Redis is away" not in caplog.text


@pytest.mark.django_db
def test_a_planted_count_of_calls_is_a_miss(planted, tmp_path, caplog):
    assert let_through(1, 3) == 1
    (key,) = planted.keys("*")
    marker = tmp_path / "PWNED"
    for name, text in hostile_texts(marker):
        for seconds in (None, 60):
            planted.set(key, text, ex=seconds)
            # A count with an end is believed: a writer to Redis can trip a limit.
            expected = (0,) if seconds and name == "count without an end" else (3, 4)
            assert let_through(5, 3) in expected, name
    for name in plant_wrong_types(planted, key.decode()):
        assert let_through(5, 3) in (3, 4), name
    assert not marker.exists()
    assert "Redis is away" not in caplog.text


def test_what_decides_who_may_sign_in_is_not_in_redis(planted):
    key = "saml.metadata.https://idp.example.sso"
    cache.set(key, {"idp": {"x509cert": "ours"}}, 60)
    assert planted.keys("*") == []
    planted.set(cache.make_key(key), json.dumps({"idp": {"x509cert": "a stranger's"}}), ex=60)
    assert cache.get(key) == {"idp": {"x509cert": "ours"}}


def test_a_value_that_is_no_count_is_not_shared(planted):
    with pytest.raises(TypeError, match="counts and times"):
        cache.set("question", {"a": 1}, 60)


@pytest.mark.django_db(transaction=True)
def test_hostile_bells_wake_nobody_and_end_nothing(settings, redis_server: RedisServer, tmp_path):
    settings.PLATFORM = replace(settings.PLATFORM, redis_url=redis_server.url(BELLS))

    async def scenario() -> None:
        with subscribe("job:1") as bell, subscribe("job:2") as last:
            # The first connection wakes everybody.
            assert await bell.wait(300) and await last.wait(300)
            with redis.Redis.from_url(redis_server.url(BELLS)) as stranger:
                for _name, text in hostile_texts(tmp_path / "PWNED"):
                    stranger.publish(CHANNEL, text)
                stranger.publish(CHANNEL, "job:*")
            # A ring that arrives after all of the stranger's.
            await asyncio.to_thread(ring, "job:2")
            assert await last.wait(300)
            assert not bell.is_rung
            await asyncio.to_thread(ring, "job:1")
            assert await bell.wait(300)
            assert not (tmp_path / "PWNED").exists()
            await listener().close()

    asyncio.run(scenario())


@pytest.fixture
def compose_redis() -> Iterator[ComposeRedis]:
    skip_without(REDIS)
    with running_compose_redis() as server:
        yield server


def test_each_user_of_redis_reaches_its_own_keys_only(compose_redis: ComposeRedis):
    with (
        redis.Redis.from_url(compose_redis.nobody_url) as nobody,
        redis.Redis.from_url(compose_redis.counts_url) as counts,
        redis.Redis.from_url(compose_redis.broker_url) as broker,
    ):
        with pytest.raises(redis.AuthenticationError):
            nobody.get("tessera:2:n")
        counts.set("tessera:2:n", 1, ex=60)
        counts.publish(CHANNEL, "job:1")
        broker.lpush("celery", "{}")
        for refused in (
            lambda: counts.lpush("celery", "{}"),
            lambda: counts.get("celery"),
            lambda: counts.publish("/1.celery.pidbox", "{}"),
            lambda: counts.config_get("*"),
            counts.flushall,
            lambda: broker.get("tessera:2:n"),
            lambda: broker.publish(CHANNEL, "job:1"),
            lambda: broker.acl_list(),
            lambda: broker.keys("*"),
        ):
            with pytest.raises(redis.exceptions.NoPermissionError):
                refused()
        with pytest.raises(redis.RedisError):
            broker.lpush("celery", b"x" * (2 << 20))


def test_threads_count_together_also_at_the_start_of_a_window(planted):
    counts = caches["default"]
    seen = []

    def count():
        seen.extend(counts.count("n", 1, 60) for _ in range(20))

    threads = [threading.Thread(target=count) for _ in "abcd"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(seen) == list(range(1, 81))
    assert 0 < planted.ttl("tessera:2:n") <= 60
    assert counts.count("n", 5, 60) == 85


@pytest.mark.parametrize("text", ["7", "many", str(1 << 60)])
def test_a_planted_count_that_never_ends_begins_anew(planted, text):
    planted.set("tessera:2:n", text)
    assert caches["default"].count("n", 2, 60) == 2
    assert 0 < planted.ttl("tessera:2:n") <= 60


def test_a_count_goes_on_while_redis_is_away(planted, settings):
    settings.CACHES = cache_settings(f"redis://127.0.0.1:{free_port()}/0", Path())
    assert [caches["default"].count("n", 1, 60) for _ in range(3)] == [1, 2, 3]
    assert RedisWithLocalFallback.away_until > 0


@pytest.mark.django_db
def test_limits_are_counted_by_the_user_that_compose_makes(compose_redis, settings, monkeypatch):
    monkeypatch.setattr(RedisWithLocalFallback, "away_until", 0.0)
    settings.CACHES = cache_settings(compose_redis.counts_url, Path())
    assert let_through(5, 3) == 3
    assert RedisWithLocalFallback.away_until == 0.0
    assert cache.add("mark", "y", 60)
    assert cache.touch("mark", 30)
    assert cache.delete("mark")
    assert RedisWithLocalFallback.away_until == 0.0
    shared_cache._client.cache_clear()


def test_tunnels_are_announced_by_the_user_that_compose_makes(compose_redis, settings):
    """What the registry sends is within the rights of that user, its scripts included."""
    settings.PLATFORM = replace(settings.PLATFORM, redis_url=compose_redis.counts_url)
    node = uuid.UUID(int=7)
    entry = registry._sealed(node, registry.Holder(registry.PROCESS, "10.0.0.5:8000"))

    async def scenario():
        assert await registry._renew(node, entry)
        assert await registry._client().get(registry._key(node)) == entry.encode()
        await registry._withdraw(node, entry)
        assert not await registry._client().exists(registry._key(node))
        await registry.close_registry()

    asyncio.run(scenario())


def test_that_user_has_the_same_rights_without_compose():
    files = (COMPOSE, COMPOSE.parent / "deploy/redis-users.acl")
    lines = [line for file in files for line in file.read_text().splitlines()]
    ours = [line.partition("resetkeys")[2] for line in lines if "user counts on" in line]
    assert len(ours) == 2 and len(set(ours)) == 1


def test_rings_are_noted_by_the_user_that_compose_makes(compose_redis, settings):
    settings.PLATFORM = replace(settings.PLATFORM, redis_url=compose_redis.counts_url)
    assert [pending.mark("plan"), pending.mark("plan")] == [True, False]
    assert [pending.take("plan"), pending.take("plan")] == [True, False]


@pytest.mark.parametrize("write", ["SET {key} x", "HSET {key} a 1", "LPUSH {key} x"])
def test_a_ring_of_a_stranger_holds_up_planning_until_the_next_sweep(redis_server, settings, write):
    """It never ends by itself, and may be of any type."""
    settings.PLATFORM = replace(settings.PLATFORM, redis_url=redis_server.url(12))
    key = pending.PREFIX + "plan"
    with redis.Redis.from_url(redis_server.url(12)) as stranger:
        stranger.delete(key)
        stranger.execute_command(*write.format(key=key).split())
        assert not pending.mark("plan")
        pending.renew("plan")
        assert 0 < stranger.ttl(key) <= pending.SECONDS
    assert pending.take("plan")
    assert [pending.mark("plan"), pending.take("plan")] == [True, True]


@pytest.mark.slow
def test_the_worker_drops_hostile_messages_and_goes_on(compose_redis: ComposeRedis, tmp_path):
    marker = tmp_path / "PWNED"
    broker = {"TESSERA_BROKER_URL": compose_redis.broker_url}
    stack = Stack(var=tmp_path / "s", nodes=(), extra_env=broker)
    with redis.Redis.from_url(compose_redis.broker_url) as stranger:
        try:
            stack.seed("tests.services.seed")
            stack.start_worker("--without-mingle")
            until(lambda: "ready." in stack.log("worker"), what="the worker")
            for _name, text in hostile_messages(marker):
                if len(text) >= 1 << 20:
                    # Redis does not take it, see above.
                    continue
                stranger.lpush("celery", text)
                stranger.sadd("_kombu.binding.celery", text)
                stranger.hset("unacked", text[:64], text)
                stranger.zadd("unacked_index", {text[:64]: 1})
            expect_a_task(stack, stranger)
            for _ in plant_wrong_types(stranger, "celery"):
                expect_a_task(stack, stranger)
            expect_no_poison(stranger)
        finally:
            stack.__exit__()
    assert not marker.exists()
    assert stack.log("worker").count(" ready.") == 1, "it was started again"


def expect_a_task(stack: Stack, stranger: redis.Redis) -> None:
    """A message of ours comes through, whatever lies in the queue."""
    until(lambda: stranger.type("celery") in (b"list", b"none"), what="a queue")
    task = str(uuid.uuid4())
    headers = {"lang": "py", "task": "scheduler.tasks.plan", "id": task, "argsrepr": "()"}
    # A task that a request has rung is a line of the log.
    headers["tessera_request_id"] = f"of-{task}"
    message = {
        "body": "W1tdLCB7fSwge31d",
        "content-encoding": "utf-8",
        "content-type": "application/json",
        "headers": headers,
        "properties": {
            "correlation_id": task,
            "delivery_mode": 2,
            "delivery_info": {"exchange": "", "routing_key": "celery"},
            "priority": 0,
            "body_encoding": "base64",
            "delivery_tag": str(uuid.uuid4()),
        },
    }
    stranger.lpush("celery", json.dumps(message))
    until(lambda: f'"request_id": "of-{task}"' in stack.log("worker"), what="the task")


def expect_no_poison(stranger: redis.Redis) -> None:
    """What cannot be read is forgotten: otherwise it is tried again and again, before the rest."""
    until(lambda: not stranger.hlen("unacked"), what="an empty list of open messages")
