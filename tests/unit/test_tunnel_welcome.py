"""For how long an agent's tunnel is welcome."""

import asyncio
from uuid import UUID

from portal.agentapi import tunnel
from portal.live.listener import Bell


def test_a_right_that_ended_while_the_tunnel_opened_is_seen_without_a_bell(monkeypatch):
    monkeypatch.setattr(tunnel, "_is_welcome", lambda caller: False)
    caller = tunnel.TunnelCaller(UUID(int=7), "key")

    async def scenario():
        async with asyncio.timeout(20):
            return await tunnel._while_welcome(caller, Bell())

    assert asyncio.run(scenario()) == (tunnel.POLICY, "the node may not call any more")
