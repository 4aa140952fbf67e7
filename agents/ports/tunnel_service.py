"""The agent's tunnel: dialed when the portal is there, dialed again whenever it ends."""

import asyncio
import logging
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

from websockets.exceptions import InvalidStatus, WebSocketException

from agents.contract.errors import ContractError
from agents.contract.ssh import SshTarget
from agents.contract.terminal import TerminalTarget
from agents.contract.tunnel import MAX_FRAME_BYTES, TUNNEL_PATH, StreamRefusal, read_target
from agents.contract.volume_files import VolumeFileTarget
from agents.portal.client import PortalClient
from agents.portal.sync import retry_pauses
from agents.ports.replica_ports import Connect, connect_target
from agents.route.websocket import websocket_options, websocket_url
from agents.terminals.node_ssh import NodeSsh
from agents.terminals.node_terminals import NodeTerminals
from agents.tunnel.client_socket import ClientSocket, Dial
from agents.tunnel.link import IncomingStream, SocketClosed, TunnelLink
from agents.tunnel.opening import open_or_refuse
from agents.tunnel.splice import SocketStream, splice
from agents.volumes.volume_files import VolumeFiles

# How often a silent connection is tried, and how long an answer may take: shorter than a proxy
# waits for a byte.
PING_SECONDS = 20.0
OPEN_SECONDS = 10.0
# A portal that is older than tunnels, or that does not let this node in, is asked again after this
# time: the session with the portal says more.
REFUSED_SECONDS = 15.0
# Connections to ports that are made at once.
PORT_THREADS = 8

log = logging.getLogger("agents.ports.tunnel_service")


class AgentTunnel:
    """Carries streams from the portal to ports of this node's replicas, to terminals and SSH in
    them, and to small files of volumes."""

    def __init__(
        self,
        client: PortalClient,
        connect: Connect,
        terminals: NodeTerminals,
        ssh: NodeSsh,
        volume_files: VolumeFiles,
    ) -> None:
        self._client = client
        self._connect = connect
        self._terminals = terminals
        self._ssh = ssh
        self._volume_files = volume_files
        # Why the last try failed, as it is in the log.
        self._failure = ""
        # Of its own: a port that does not answer keeps no log and no file waiting.
        self._threads = ThreadPoolExecutor(PORT_THREADS, thread_name_prefix="ports")

    async def run(self) -> None:
        """Dial, and again after every end. Ends by cancellation only."""
        await self._terminals.begin()
        await self._client.has_greeted.wait()
        async for pause in retry_pauses():
            address = self._client.address
            try:
                await self._once(address)
            except InvalidStatus as refused:
                status = refused.response.status_code
                self._log_once(f"the portal, or a proxy before it, answered {status}")
                pause = max(pause, REFUSED_SECONDS)
            except (OSError, TimeoutError, WebSocketException) as error:
                self._log_once(str(error) or type(error).__name__)
                self._client.leave(address)
            except Exception:
                log.exception("tunnel_failed")
                pause = max(pause, REFUSED_SECONDS)
            await asyncio.sleep(pause)

    def _log_once(self, why: str) -> None:
        """A way that stays shut is one line, not one for each try."""
        if why != self._failure:
            self._failure = why
            log.info("tunnel_away", extra={"why": why})

    async def _once(self, address: str) -> None:
        """One tunnel, until it closes. Raises what dialing raises."""
        async with Dial(
            websocket_url(address, TUNNEL_PATH),
            additional_headers=self._client.headers(),
            compression=None,
            max_size=MAX_FRAME_BYTES,
            open_timeout=OPEN_SECONDS,
            ping_interval=PING_SECONDS,
            ping_timeout=PING_SECONDS,
            **websocket_options(self._client.route, address),
        ) as connection:
            log.info("tunnel_open", extra={"address": address})
            self._failure = ""
            with suppress(SocketClosed):
                await TunnelLink(ClientSocket(connection), self._serve).run()
        log.info("tunnel_closed", extra={"why": connection.close_reason or ""})

    async def _serve(self, incoming: IncomingStream) -> None:
        try:
            target = read_target(incoming.target)
        except (ContractError, ValueError):
            incoming.refuse(StreamRefusal.FAILED)
            return
        if isinstance(target, TerminalTarget):
            with suppress(OSError):
                await self._terminals.serve(incoming, target)
            return
        if isinstance(target, SshTarget):
            await self._ssh.serve(incoming, target)
            return
        if isinstance(target, VolumeFileTarget):
            with suppress(OSError):
                await self._volume_files.serve(incoming, target)
            return
        connecting = connect_target(target, self._connect, self._threads)
        connected = await open_or_refuse(incoming, connecting, log, "port_failed")
        if connected is None:
            return
        local = SocketStream(*connected)
        incoming.accept()
        try:
            await splice(incoming, local)
        finally:
            local.close()
