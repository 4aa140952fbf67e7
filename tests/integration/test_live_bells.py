"""Bells: nothing is rung before it is true, nothing is missed between reading and waiting."""

import asyncio
import gc
import os
import signal
import socket
import uuid
from contextlib import suppress
from dataclasses import replace

import pytest
from django.db import transaction
from kombu.exceptions import OperationalError as BrokerError

from portal import draining
from portal.asgi import application
from portal.celery import app
from portal.inventory.models import Node
from portal.live import bell as bells
from portal.live import sockets
from portal.live.bell import ring, ring_drive, ring_plan
from portal.live.listener import listener, subscribe, wait
from scheduler.core.compiled import _dispatchers
from scheduler.jit_warmup import warm_up

pytestmark = pytest.mark.django_db(transaction=True)


def run(scenario):
    async def run_scenario():
        try:
            async with asyncio.timeout(500):
                await scenario()
        finally:
            await listener().close()

    asyncio.run(run_scenario())


def test_a_ring_between_registering_and_waiting_is_heard():
    async def scenario():
        with subscribe("job:1", "cluster") as bell:
            await asyncio.to_thread(ring, "job:1")
            assert await bell.wait(300)
            assert not await bell.wait(0)
            await asyncio.to_thread(ring, "cluster")
            assert await bell.wait(300)

    run(scenario)


def test_only_who_waits_for_the_key_is_woken():
    async def scenario():
        with subscribe("job:1") as one, subscribe("job:12") as other:
            await asyncio.to_thread(ring, "job:1")
            assert await one.wait(300)
            assert not await other.wait(0)

    run(scenario)


def test_a_ring_waits_for_the_commit_and_dies_with_a_rollback():
    def work(bell):
        with transaction.atomic():
            ring("a")
            rung_early = bell.is_rung
        try:
            with transaction.atomic():
                ring("b")
                raise RuntimeError
        except RuntimeError:
            return rung_early

    async def scenario():
        with subscribe("a") as bell, subscribe("b") as undone:
            assert await asyncio.to_thread(work, bell) is False
            assert await bell.wait(300)
            assert not undone.is_rung

    run(scenario)


def test_a_task_that_fails_does_not_undo_or_hide_what_was_committed(monkeypatch, caplog):
    def broken(*_, **__):
        raise RuntimeError("the worker's own trouble")

    monkeypatch.setattr(app.Task, "apply_async", broken)
    with transaction.atomic():
        ring_plan()
        ring_drive([uuid.uuid4()])
        Node.objects.create(name="kept")
    assert Node.objects.filter(name="kept").exists()
    assert caplog.text.count("the worker's own trouble") >= 2


def test_a_broker_that_is_not_there_is_only_logged(monkeypatch, caplog):
    def refuse(*_, **__):
        raise BrokerError("connection refused")

    monkeypatch.setitem(app.conf, "task_always_eager", False)
    monkeypatch.setattr(bells, "PLAN_TASK", "a task that this process does not know")
    monkeypatch.setattr(app, "send_task", refuse)
    ring_plan()
    assert "was not rung: connection refused" in caplog.text


def test_a_wait_ends_in_time_and_leaves_nothing_behind():
    async def scenario():
        assert not await wait("nobody", 0)
        assert listener().keys() == set()

    run(scenario)


def test_the_socket_of_a_dead_process_is_removed(settings, tmp_path):
    settings.PLATFORM = replace(settings.PLATFORM, var=tmp_path)
    where = sockets.bell_folder(tmp_path)
    where.mkdir()
    dead = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    dead.bind(str(where / "1-dead.sock"))
    dead.close()

    async def scenario():
        with subscribe("k") as bell:
            await asyncio.to_thread(ring, "k")
            assert await bell.wait(300)
            assert not (where / "1-dead.sock").exists()
            assert len(list(where.glob("*.sock"))) == 1

    run(scenario)
    assert list(where.glob("*.sock")) == []


def test_a_deep_var_still_has_bells(settings, tmp_path):
    deep = tmp_path / ("d" * 60) / ("e" * 60)
    settings.PLATFORM = replace(settings.PLATFORM, var=deep)
    where = sockets.bell_folder(deep)
    assert len(os.fsencode(where)) < 80

    async def scenario():
        with subscribe("k") as bell:
            await asyncio.to_thread(ring, "k")
            assert await bell.wait(300)
        assert where.stat().st_mode & 0o077 == 0

    run(scenario)
    where.rmdir()


def test_a_loop_that_ends_closes_its_ear(settings):
    where = sockets.bell_folder(settings.PLATFORM.var)

    async def forgetful():
        with subscribe("k"):
            return set(where.glob("*.sock"))

    during = asyncio.run(forgetful())
    assert during
    assert not during & set(where.glob("*.sock"))


def test_a_web_process_loads_the_kernels_before_it_serves(settings):
    """Else the first dry run waits for them, and all else with it."""
    settings.LOAD_KERNELS = True
    before = []

    def looks_into_the_cache() -> int:
        return sum(sum(each.stats.cache_hits.values()) for each in _dispatchers)

    async def scenario():
        received = asyncio.Queue()

        async def send(message):
            if message["type"] == "lifespan.startup.complete":
                before.append(looks_into_the_cache())

        await received.put({"type": "lifespan.startup"})
        await received.put({"type": "lifespan.shutdown"})
        await application({"type": "lifespan"}, received.get, send)

    try:
        run(scenario)
    finally:
        gc.unfreeze()
    assert any(each.signatures for each in _dispatchers)
    # Nothing is left to be loaded.
    warm_up()
    assert before == [looks_into_the_cache()]


def test_a_signal_ends_waits_before_the_server_says_shutdown(monkeypatch):
    """uvicorn sends lifespan.shutdown only once every open call has ended."""
    # This process has listening sockets of other tests.
    monkeypatch.setattr(draining, "own_listeners_close_door", lambda: False)
    caught = []
    before = signal.signal(signal.SIGTERM, lambda *_: caught.append("server"))

    async def scenario():
        ending, started = asyncio.Event(), asyncio.Event()

        async def receive():
            if started.is_set():
                await ending.wait()
                return {"type": "lifespan.shutdown"}
            return {"type": "lifespan.startup"}

        async def send(message):
            if message["type"] == "lifespan.startup.complete":
                started.set()

        life = asyncio.create_task(application({"type": "lifespan"}, receive, send))
        await started.wait()
        # What is loaded for good is not walked by the garbage collector again.
        assert gc.get_freeze_count() > 50_000
        with subscribe("k") as bell:
            signal.raise_signal(signal.SIGTERM)
            assert await bell.wait(300)
            assert bell.is_closing
        while not caught:
            await asyncio.sleep(0.01)
        ending.set()
        await life

    try:
        run(scenario)
        signal.raise_signal(signal.SIGTERM)
        assert caught == ["server", "server"]
    finally:
        gc.unfreeze()
        signal.signal(signal.SIGTERM, before)


def test_the_bells_of_a_transaction_are_one_message_each_once(monkeypatch):
    messages = []
    monkeypatch.setattr(bells, "_ring", messages.append)
    with transaction.atomic():
        for key in ("job:1", "cluster", "job:1", "job:2"):
            ring(key)
        with transaction.atomic():
            ring("node:1")
        assert not messages
    ring("job:3")
    assert sorted(sum(messages, ())) == ["cluster", "job:1", "job:2", "job:3", "node:1"]
    assert messages[0] == ("job:1", "cluster", "job:2")


def test_a_rolled_back_savepoint_takes_its_own_bells_and_no_others(monkeypatch):
    messages = []
    monkeypatch.setattr(bells, "_ring", messages.append)
    with transaction.atomic():
        with suppress(ZeroDivisionError), transaction.atomic():
            ring("job:1")
            ring("job:2")
            raise ZeroDivisionError
        ring("job:2")
        with suppress(ZeroDivisionError), transaction.atomic():
            ring("job:2")
            raise ZeroDivisionError
    assert messages == [("job:2",)]
