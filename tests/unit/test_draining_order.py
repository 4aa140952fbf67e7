"""In which order a web process that was told to end lets go of its callers."""

import asyncio
import signal

import pytest

from portal import draining
from portal.draining import Drain
from portal.live.listener import listener


@pytest.mark.parametrize(
    ("seconds", "steps"),
    [
        pytest.param(0.01, ["door", "calls", "end"], id="others take the new calls"),
        pytest.param(0.0, ["calls", "door", "end"], id="nobody else would serve pages"),
    ],
)
def test_the_door_is_closed_before_the_last_calls_where_others_serve(monkeypatch, seconds, steps):
    done = []
    # This process has listening sockets of other tests.
    monkeypatch.setattr(draining, "own_listeners_close_door", lambda: done.append("door"))
    monkeypatch.setattr(draining, "CLOSING_SECONDS", 0.0)
    before = signal.signal(signal.SIGTERM, lambda *_: done.append("end"))

    async def finish_calls():
        done.append("calls")

    async def scenario():
        drain = Drain(listener(), seconds, finish_calls)
        with listener().subscribe("k") as bell, drain.on_signals():
            signal.raise_signal(signal.SIGTERM)
            async with asyncio.timeout(20):
                while not bell.is_closing:
                    await bell.wait(20)
        await listener().close()

    try:
        asyncio.run(scenario())
    finally:
        signal.signal(signal.SIGTERM, before)
    assert done == steps
