"""`agents run`: connects the parts of the agent and shuts them down in order."""

import argparse
import asyncio
import logging
import os
import signal
import sys
import threading
from collections.abc import Coroutine, Sequence
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path

from agents.admission.policy import NodePolicy, PolicyError, read_policy
from agents.commands.address_watch import AddressChanged, address_change, start_anew
from agents.commands.hardware import network_of, network_tree, read_numa_host
from agents.configuration.agent_settings import AgentVariables
from agents.configuration.declaration import names_of
from agents.configuration.names import misspelt_settings
from agents.contract.documents import DesiredReplica, RuntimeKind
from agents.contract.errors import ContractError
from agents.contract.log_lines import line_formatter, password_of
from agents.contract.topology import NodeTopology
from agents.facts.gpu_health import DriverEvent
from agents.files.direct_store import DirectStore
from agents.files.replica_files import ReplicaFiles
from agents.git_code.fetching import GitCode
from agents.hardware import Hardware
from agents.health.lost_devices import DetachedProbe
from agents.health.xids import xid_by_number
from agents.host.job_disk import JobDisk
from agents.host.private_files import PRIVATE_UMASK, FolderExposed, make_agent_folder
from agents.images.records import ImageRecords, RecordsUnreadable
from agents.job_metrics.shipping import JobMetricsShipping
from agents.job_secrets.delivery import ReplicaSecrets
from agents.job_secrets.memory import secret_memory
from agents.loop.node import NodeLoop
from agents.mps.shares import NodeShares
from agents.mps.support import control_program, mps_support
from agents.notebooks.watch import NotebookWatch
from agents.nvml.errors import NvmlFailure
from agents.nvml.session import Nvml
from agents.overlay.gang_links import NodeEnd
from agents.overlay.interfaces import address_towards
from agents.overlay.offer import OverlayUnavailable, overlay_offer, overlay_rules
from agents.portal.client import PortalClient
from agents.portal.loop_calls import LoopCalls
from agents.portal.portal_file_calls import PortalFileCalls
from agents.portal.secret_calls import SecretCalls
from agents.portal.sync import NodeRetired, PortalSession, enrol
from agents.ports.replica_ports import replica_ports
from agents.ports.tunnel_service import AgentTunnel
from agents.rank_network.grants import with_rank_network
from agents.rank_network.reading import interface_of, read_rank_network
from agents.runtime.base import Runtime, RuntimeFailure
from agents.runtime.docker import DockerRuntime
from agents.runtime.docker_recipe import LABEL
from agents.runtime.docker_volumes import DockerVolumes
from agents.runtime.grants import Grant, GrantProvider
from agents.runtime.process import ProcessRuntime
from agents.runtime.work_folders import WORK
from agents.settings import AgentSettings, settings_from
from agents.simdriver.install import install
from agents.state.identity import AgentIdentity
from agents.state.journal import Journal, JournalError
from agents.state.single_instance import FolderInUse, lock_folder
from agents.telemetry.endpoint import EndpointFailure
from agents.telemetry.sampler import Sampler
from agents.telemetry.service import Telemetry
from agents.terminals.node_ssh import NodeSsh
from agents.terminals.node_terminals import NodeTerminals
from agents.terminals.replica_terminals import end_leftovers, replica_ssh, replica_terminals
from agents.topology.reading import read_topology
from agents.topology.wiring import WiringCache, topology_report
from agents.volumes.caches import SharedCaches
from agents.volumes.grants import with_caches, with_volumes
from agents.volumes.roots import VolumeRoots
from agents.volumes.volume_files import VolumeFiles
from agents.workspace.folders import folders_below

START_ERRORS = (
    NvmlFailure,
    RuntimeFailure,
    PolicyError,
    JournalError,
    FolderInUse,
    FolderExposed,
    EndpointFailure,
    ContractError,
    RecordsUnreadable,
    FileNotFoundError,
)


def main(options: argparse.Namespace) -> int:
    """Exit status 0 after a regular end, 1 if the agent could not start. Where the machine has
    another address than before, it starts anew in this process."""
    os.umask(PRIVATE_UMASK)
    settings = settings_from(options)
    configure_logging(settings)
    for sentence in misspelt_settings(os.environ, names_of(AgentVariables)):
        logging.getLogger("agents").warning("setting_ignored", extra={"why": sentence})
    try:
        asyncio.run(run_agent(settings))
    except START_ERRORS as error:
        logging.getLogger("agents").error("cannot_start", extra={"why": str(error)})
        return 1
    except NodeRetired as retired:
        logging.getLogger("agents").warning("retired", extra={"why": str(retired)})
        return 0
    except AddressChanged as changed:
        logging.getLogger("agents").warning("address_changed", extra={"address": str(changed)})
        start_anew()
    return 0


def configure_logging(settings: AgentSettings) -> None:
    """To standard error, as the portal's lines are, each with the name of the node."""
    secrets = [settings.join_token, *password_of(settings.route.proxy)]
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(line_formatter(settings.log_format, sys.stderr, secrets))
    handler.addFilter(partial(_name_node, settings.name))
    logging.basicConfig(level=logging.INFO, handlers=[handler])
    logging.getLogger("httpx").setLevel(logging.WARNING)


def _name_node(name: str, record: logging.LogRecord) -> bool:
    record.node = name
    return True


async def run_agent(settings: AgentSettings) -> None:
    """Run until SIGTERM or SIGINT. Jobs keep running unless the settings say otherwise. Raises
    AddressChanged; then all of them go on."""
    make_agent_folder(settings.var)
    if settings.simulated_driver is not None:
        install(settings.simulated_driver)
    policy = read_policy(settings.policy)
    lock = lock_folder(settings.var)
    identity, journal = AgentIdentity(settings.var), Journal(settings.var / "journal.sqlite3")
    nvml, client = Nvml(), PortalClient(settings.route)
    await enrol(client, identity, settings.name, settings.join_token)
    shares = _shares(settings, policy, nvml)
    calls = LoopCalls(client, asyncio.get_running_loop())
    asks = SecretCalls(calls)
    secrets = ReplicaSecrets(secret_memory(settings.var), asks.fetch, asks.fetch_credential)
    volumes = VolumeRoots(policy.volumes, settings.var / "volume_sizes.json")
    grant = with_volumes(_grants(settings, policy, nvml, shares), volumes, settings.runtime)
    caches = SharedCaches(policy.caches)
    grant = with_caches(grant, caches, settings.runtime)
    grant = with_rank_network(
        grant,
        lambda: hardware.network_facts(),
        settings.runtime,
        network_tree(),
        lambda replica: folders_below(_work_folder(settings, identity.node_id) / replica),
    )
    grant = secrets.grant(grant, settings.runtime)
    address = settings.address or address_towards(settings.route.addresses)
    runtime = _runtime(settings, policy, identity.node_id, grant, address)
    if isinstance(runtime, DockerRuntime):
        volumes.use_engine(DockerVolumes(runtime.client))
    if runtime.injection is not None:
        logging.getLogger("agents").info("device_injection", extra=asdict(runtime.injection))
    portal_session = PortalSession(client, identity, journal, runtime, secrets)
    hardware = Hardware(
        nvml,
        runtime,
        settings.var,
        simulated=settings.simulated_driver is not None,
        policy=policy,
        route=settings.route,
        wiring=WiringCache(lambda: _topology(nvml)),
        share_clients=shares.support.share_clients,
        job_disk=JobDisk(settings.disk_folder or settings.var, settings.disk_reserve),
        volumes=volumes,
        caches=caches,
        rank_network=partial(
            read_rank_network,
            policy,
            settings.runtime,
            address_interface=interface_of(address) if policy.network == "host" else "",
        ),
        address=address,
    )
    telemetry = _telemetry(settings)
    hardware.handle_owners.append(telemetry.without_handles)
    work = _work_folder(settings, identity.node_id)
    job_metrics = JobMetricsShipping(partial(_metrics_file, work), runtime.log)
    portal_session.logs.on_shipped = job_metrics.logs.feed
    connect = replica_ports(runtime)
    notebooks = NotebookWatch(connect, lambda: node.desired.replicas)
    report = notebooks.tap_reports(portal_session.report)
    report = job_metrics.tap_reports(telemetry.tap_reports(report))
    files = ReplicaFiles(
        PortalFileCalls(calls, DirectStore(settings.route)),
        work,
        lambda replica: folders_below(work / replica),
        lambda: node.wake(),
        GitCode(policy.git_hosts, secrets.git_key, policy.git_ca_file).fetch,
    )
    node = NodeLoop(
        *(identity.node_id, journal, hardware, runtime, policy, report, shares, secrets, files)
    )
    node.before_removal.append(job_metrics.before_removal)
    portal_session.node = node
    telemetry.start(lambda: node.rounds)
    _listen(hardware, node, shares, runtime)
    await asyncio.to_thread(node.round)
    reconciling = threading.Thread(target=node.run, name="reconcile")
    reconciling.start()
    files.start()
    terminals = NodeTerminals(replica_terminals(runtime), partial(end_leftovers, runtime))
    ssh = NodeSsh(replica_ssh(runtime))
    user_of = policy.user_of_project if isinstance(runtime, DockerRuntime) else None
    volume_files = VolumeFiles(volumes, user_of)
    sending = [
        asyncio.create_task(telemetry.send_forever(client)),
        asyncio.create_task(job_metrics.ship_forever(client)),
        asyncio.create_task(AgentTunnel(client, connect, terminals, ssh, volume_files).run()),
        asyncio.create_task(notebooks.watch_forever()),
    ]
    # An address that the node's owner chose is not ours to change.
    is_watched = not settings.address
    moving = address_change(address, settings.route.addresses) if is_watched else None
    new_address = ""
    try:
        new_address = await _until_signal(portal_session, moving)
    finally:
        for task in sending:
            task.cancel()
        await asyncio.gather(terminals.close(), ssh.close())
        telemetry.stop()
        files.close()
        node.stop()
        hardware.watch.stop()
        reconciling.join()
        if settings.stop_jobs_on_exit and not new_address:
            node.stop_jobs()
        await client.close()
        runtime.close()
        journal.close()
        nvml.close()
        lock.close()
    if new_address:
        raise AddressChanged(new_address)


def _listen(hardware: Hardware, node: NodeLoop, shares: NodeShares, runtime: Runtime) -> None:
    """GPU events wake the loop, and GPU errors are reported to the shares of the GPU."""

    def on_event(event: DriverEvent) -> None:
        if event.xid:
            shares.report_gpu_fault(
                event.gpu_uuid, f"XID {event.xid}, {xid_by_number(event.xid).sentence}"
            )

    hardware.watch.on_change = node.wake
    hardware.watch.on_event = on_event
    if isinstance(runtime, DockerRuntime):
        ours: dict[str, str | list[str] | bool] = {"label": f"{LABEL}node={runtime.node}"}
        running = partial(runtime.client.containers.list, filters=ours, ignore_removed=True)
        hardware.health_effects.probe = DetachedProbe(running)
    hardware.watch.start()


def _shares(settings: AgentSettings, policy: NodePolicy, nvml: Nvml) -> NodeShares:
    root = settings.var.absolute() / "mps"
    program = control_program(settings.mps_control, settings.simulated_driver)
    cuda = nvml.versions().cuda
    # The simulated daemon writes the simulated driver's state file, so it runs as this user.
    user = os.geteuid() if settings.simulated_driver else policy.user
    return NodeShares(root, mps_support(program, settings.runtime, user, cuda, root))


def _topology(nvml: Nvml) -> NodeTopology:
    topology = read_topology(nvml)
    return topology_report(topology, network_of(topology))


def _work_folder(settings: AgentSettings, node_id: str) -> Path:
    """Where jobs write. A disk that is named for it may be shared with other agents."""
    if settings.disk_folder is None:
        return settings.var / WORK
    return settings.disk_folder / f"tessera-{node_id}" / WORK


def _metrics_file(work: Path, replica: str) -> Path:
    return folders_below(work / replica).metrics_file


def _telemetry(settings: AgentSettings) -> Telemetry:
    seconds = settings.telemetry_seconds
    return Telemetry(settings.name, Sampler(seconds) if seconds > 0 else None, settings.metrics)


def _runtime(
    settings: AgentSettings, policy: NodePolicy, node_id: str, grant: GrantProvider, address: str
) -> Runtime:
    work = _work_folder(settings, node_id)
    if settings.runtime is RuntimeKind.PROCESS:
        return ProcessRuntime(settings.var / "replicas", grant, work)
    records = ImageRecords(settings.var / "images.json")
    end = _overlay_end(settings, policy, node_id, address)
    logs = settings.var / "logs"
    return DockerRuntime(logs, node_id, policy, grant, work, records, address, end)


def _overlay_end(
    settings: AgentSettings, policy: NodePolicy, node_id: str, address: str
) -> NodeEnd | None:
    """None, with a line in the log, where gangs stay on this node's engine."""
    rules = overlay_rules(policy)
    if rules is None:
        return None
    try:
        offer = overlay_offer(rules, address, settings.var)
    except OverlayUnavailable as unavailable:
        extra = {"why": unavailable.why, "mend": unavailable.mend}
        logging.getLogger("agents").info("no_overlay", extra=extra)
        return None
    return NodeEnd(node_id, rules.name, address, offer, settings.var)


def _grants(
    settings: AgentSettings, policy: NodePolicy, nvml: Nvml, shares: NodeShares
) -> GrantProvider:
    """What the replica's share grants it, and the NUMA nodes of its GPUs where they are known."""
    if policy.numa == "off" or settings.runtime is RuntimeKind.PROCESS:
        return shares.grant
    try:
        host = read_numa_host(read_topology(nvml).gpus, policy)
    except (NvmlFailure, OSError) as failure:
        logging.getLogger("agents").warning("numa_unread", extra={"why": str(failure)})
        return shares.grant

    def grant(replica: DesiredReplica, devices: Sequence[str]) -> Grant:
        bound = host.binding(replica, memory=policy.numa == "bind")
        return replace(
            shares.grant(replica, devices), cpus=bound.cpus, memory_nodes=bound.memory_nodes
        )

    return grant


async def _until_signal(
    portal_session: PortalSession, moving: Coroutine[None, None, str] | None
) -> str:
    """The machine's new address; empty after a signal."""
    loop = asyncio.get_running_loop()
    session_task = asyncio.create_task(portal_session.run())
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, session_task.cancel)
    moved = asyncio.create_task(moving) if moving else None
    if moved:
        moved.add_done_callback(lambda _: session_task.cancel())
    try:
        await session_task
    except asyncio.CancelledError:
        logging.getLogger("agents").info("stopped")
    finally:
        address = moved.result() if moved and moved.done() else ""
        if moved:
            moved.cancel()
    return address
