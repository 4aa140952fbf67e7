"""The GPUs and MIG instances of this node as last read, with their health and the preflight."""

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path

from agents.admission.policy import NodePolicy
from agents.contract.boards import Board
from agents.contract.documents import DesiredReplica, NodeFacts, RuntimeKind
from agents.contract.launcher_names import LauncherName
from agents.contract.rank_network import RankNetwork
from agents.contract.topology import NodeTopology
from agents.contract.version import VERSION
from agents.doctor.machine import RealMachine
from agents.doctor.preflight import Preflight
from agents.facts.device_keys import DeviceKey, whole_gpu_key
from agents.facts.gpus import GpuFacts, InstanceFacts
from agents.facts.partitions import PartitionProblem
from agents.git_code.program import offered_hosts
from agents.health.effects import HealthEffects
from agents.health.watch import HealthWatch
from agents.host import disk_space as disk
from agents.host.architecture import architecture
from agents.host.job_disk import JobDisk
from agents.host.system_reserve import host_capacity
from agents.nvml.errors import NvmlFailure
from agents.nvml.instance_readings import InstanceReadings
from agents.nvml.profiles import ProfileDiscovery
from agents.nvml.session import Nvml
from agents.rank_network.facts import NodeNetworkFacts
from agents.route.portal_route import PortalRoute
from agents.runtime.base import ContainerStatus, Runtime
from agents.state.journal import Journal
from agents.topology.wiring import WiringCache
from agents.volumes.caches import SharedCaches
from agents.volumes.roots import VolumeRoots

# How old what was read may grow where news never leave a quiet moment.
REFRESH_SECONDS = 5.0


class Hardware:
    """GPUs and instances as last read. Call `refresh_gpu` after a change of a GPU's partitions."""

    def __init__(
        self,
        nvml: Nvml,
        runtime: Runtime,
        var: Path,
        *,
        simulated: bool,
        preflight: Preflight | None = None,
        policy: NodePolicy | None = None,
        route: PortalRoute | None = None,
        wiring: WiringCache | None = None,
        watch: HealthWatch | None = None,
        share_clients: int = 0,
        job_disk: JobDisk | None = None,
        volumes: VolumeRoots | None = None,
        caches: SharedCaches | None = None,
        rank_network: Callable[[NodeTopology], RankNetwork] | None = None,
        address: str = "",
    ) -> None:
        """A node with a real driver gets a preflight; a simulated one only the `preflight` passed.

        `policy`: the node owner's rules, for the preflight, the reserve and the end of the lease.
        `route`: the way to the portal, for the preflight.
        `share_clients`: as in NodeFacts. `job_disk`: None if the node does not report disk for
        jobs. `volumes`, `caches`: what the policy offers. `rank_network`: reads what the network of
        this node offers ranks. `address`: of the node for other nodes."""
        policy = policy or NodePolicy()
        self.nvml = nvml
        self.watch = watch or HealthWatch()
        self.health_effects = HealthEffects(self.watch, nvml.known_gpus)
        self.discovery = ProfileDiscovery()
        self._readings = InstanceReadings(nvml)
        self.var = var
        self.job_disk = job_disk or JobDisk()
        self.volumes, self.caches = volumes or VolumeRoots(()), caches or SharedCaches(())
        self.wiring = wiring
        self._read_rank_network = rank_network
        self.topology = NodeTopology()
        # What they lack is reported at once, and not only by the next examination.
        examined = replace(policy, volumes=(), caches=())
        self.preflight = preflight or Preflight(
            None
            if simulated
            else lambda: RealMachine(
                var,
                runtime.kind,
                nvml,
                simulated=False,
                policy=examined,
                route=route,
                address=address,
            ),
            accepted=frozenset(policy.accepted_checks),
        )
        self.preflight.examine()
        self._lock = threading.Lock()
        self._reading = threading.Lock()
        self._is_full = disk.is_full(var)
        self._stale_at = 0.0
        self.facts = replace(
            _facts(nvml, runtime, var, policy, simulated=simulated),
            share_clients=share_clients,
            on_lease_end=policy.on_lease_end,
            git_hosts=offered_hosts(policy.git_hosts),
            address=address,
            overlay=runtime.overlay(),
            limits_egress=runtime.limits_egress,
        )
        self.gpus: list[GpuFacts] = []
        self.instances: list[InstanceFacts] = []
        # Who else in this process opens the driver's library.
        self.handle_owners: list[Callable[[], AbstractContextManager[None]]] = [
            self.watch.without_handles
        ]
        # GPUs whose instances could not be read: what stands there is not known for certain.
        self.unread: frozenset[str] = frozenset()
        self.problems: list[PartitionProblem] = []
        # Set by the carver: by GPU, why it takes no new work; and problems of the node.
        self.out_of_service: dict[str, str] = {}
        self.node_problems: tuple[str, ...] = ()
        self.refresh()

    def is_due(self) -> bool:
        """Whether the driver sent an event, or the readings are old."""
        return self.watch.has_news or time.monotonic() > self._stale_at

    def refresh(self) -> None:
        """Read what may have changed. A GPU that does not answer stays as it was, but unhealthy;
        one that is being changed stays as it was. Never waits for a change."""
        with self._reading, self.nvml.reading() as changing:
            if changing is None:
                return
            self._stale_at = time.monotonic() + REFRESH_SECONDS
            self._look_at_disk()
            self.preflight.examine_when_due()
            gpus = self.discovery.with_profiles(self.nvml.devices())
            judged = self.health_effects.refresh(gpus, changing)
            absent = judged.lost | judged.unresponsive
            responding = [gpu for gpu in judged.gpus if gpu.uuid not in absent]
            self._readings.refresh(responding, absent)
            self._publish(list(judged.gpus))
            if self.wiring is not None:
                self.topology = self.wiring.current(tuple((g.uuid, g.mig_current) for g in gpus))
            if self._read_rank_network is not None:
                network = self._read_rank_network(self.topology)
                self.facts = replace(self.facts, rank_network=network)

    def refresh_gpu(self, gpu_uuid: str) -> None:
        """Read the mode and the instances of one GPU again, after a change of them."""
        with self._reading, self.nvml.reading() as changing:
            if changing is None:
                return
            try:
                (gpu,) = self.discovery.with_profiles([self.nvml.device(gpu_uuid)])
            except NvmlFailure:
                # The next refresh sees what is wrong with it.
                self._stale_at = 0.0
                return
            self._readings.read(gpu)
            judged = self.health_effects.replace_facts(gpu)
            self._publish(list(judged.gpus))

    @contextmanager
    def without_handles(self) -> Iterator[None]:
        """During the block this process has no handle of any GPU: the driver resets none that is
        open. Raises GateBusy, NvmlFailure."""
        with ExitStack() as stack:
            for owner in self.handle_owners:
                stack.enter_context(owner())
            stack.enter_context(self.nvml.closed())
            yield

    def _publish(self, gpus: list[GpuFacts]) -> None:
        """`gpus` with the verdict of their health; one with unread instances is unhealthy too."""
        unread = self._readings.failures
        judged = [_unreadable(g, unread[g.uuid]) if g.uuid in unread else g for g in gpus]
        instances = [
            _planned(instance, gpu.board)
            for gpu in gpus
            for instance in self._readings.of(gpu.uuid)
        ]
        with self._lock:
            self.gpus, self.instances, self.unread = judged, instances, frozenset(unread)

    def instances_of(self, gpu_uuid: str) -> list[InstanceFacts]:
        with self._lock:
            return [i for i in self.instances if i.gpu_uuid == gpu_uuid]

    def devices(self) -> dict[DeviceKey, str]:
        """Every device on a healthy GPU, with the driver's UUID of it."""
        with self._lock:
            gpus, instances = self.gpus, self.instances
        well = {g.uuid for g in gpus if g.healthy}
        whole = {whole_gpu_key(g.uuid): g.uuid for g in gpus if not g.mig_current and g.healthy}
        return whole | {i.key: i.uuid for i in instances if i.uuid and i.gpu_uuid in well}

    def network_facts(self) -> NodeNetworkFacts:
        """What the variables of ranks are made of."""
        with self._lock:
            indexes = {gpu.uuid: gpu.index for gpu in self.gpus}
        return NodeNetworkFacts(self.facts.rank_network or RankNetwork(), self.topology, indexes)

    def idle_devices(self) -> dict[DeviceKey, str]:
        """Those of `devices` without a foreign process: these can be given out now."""
        shut = self.health_effects.foreign_processes.unavailable
        return {key: uuid for key, uuid in self.devices().items() if key not in shut}

    def apply_health(
        self,
        replicas: tuple[DesiredReplica, ...],
        containers: Mapping[str, ContainerStatus],
        journal: Journal,
    ) -> None:
        """Apply the GPUs' health to the work on them: which replicas fail, and which devices are
        withheld."""
        self.health_effects.apply(replicas, containers, self.instances, journal)

    def _look_at_disk(self) -> None:
        """A preflight is due as soon as the disk is full, or has space again."""
        free_mib, jobs_mib = disk.free_mib(self.var), self.job_disk.capacity_mib()
        self.facts = replace(
            self.facts,
            disk_free_mib=free_mib,
            disk_mib=jobs_mib,
            volume_roots=self.volumes.offered(),
            caches=self.caches.offered(),
        )
        is_full = disk.is_full(self.var)
        if is_full != self._is_full:
            self._is_full = is_full
            self.preflight.make_due()


def _unreadable(gpu: GpuFacts, reason: str) -> GpuFacts:
    if not gpu.healthy:
        return gpu
    sentence = f"the driver does not list the GPU's MIG instances: {reason}"
    return replace(gpu, healthy=False, health_reason=sentence)


def _planned(instance: InstanceFacts, board: Board) -> InstanceFacts:
    """With the planner's name of its profile: drivers agree on ids, but not on names (one GB200
    prints 1g.23gb, another 1g.24gb: mig-parted #227)."""
    profile = board.profile_by_id(instance.profile_id)
    return replace(instance, profile=profile.name) if profile else instance


def _facts(
    nvml: Nvml, runtime: Runtime, var: Path, policy: NodePolicy, *, simulated: bool
) -> NodeFacts:
    """CPU and memory are what jobs may have together: without the reserve."""
    versions, total = nvml.versions(), host_capacity()
    for_jobs = total.without(policy.reserve(total, simulated=simulated))
    return NodeFacts(
        cpu_milli=for_jobs.cpu_milli,
        memory_mib=for_jobs.memory_mib,
        disk_free_mib=disk.free_mib(var),
        runtime=runtime.kind,
        runtime_version=runtime.version(),
        fabric=runtime.fabric(),
        driver_version=versions.driver,
        nvml_version=versions.nvml,
        cuda_version=versions.cuda,
        architecture=architecture(),
        simulated=simulated,
        agent_version=VERSION,
        launchers=tuple(map(str, LauncherName)),
        pins_images=runtime.kind is RuntimeKind.DOCKER,
        has_profiler=True,
    )
