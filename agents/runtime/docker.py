"""Runs replicas as containers of a Docker Engine.

Labels mark the containers and networks of this node's agent; it never touches any other.
"""

import contextlib
import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from docker.errors import APIError, NotFound
from docker.models.containers import Container

from agents.admission.policy import NodePolicy
from agents.contract.container_names import container_name
from agents.contract.documents import DesiredReplica, Rendezvous, RuntimeKind
from agents.contract.gang_network import NodeOverlay
from agents.contract.image_needs import ImageNeeds
from agents.contract.registries import RegistryCredential
from agents.facts.images import WantedImage
from agents.host.container_toolkit import read_container_toolkit
from agents.host.files import FileTree
from agents.images.records import ImageRecords
from agents.overlay.gang_links import NodeEnd
from agents.runtime.base import (
    BeforeKill,
    ContainerPhase,
    ContainerStatus,
    EngineUnreachable,
    RuntimeFailure,
)
from agents.runtime.docker_candidates import has_environment, is_stale, set_aside
from agents.runtime.docker_ends import PHASES, ContainerEnds, container_status
from agents.runtime.docker_engine import connect_engine
from agents.runtime.docker_errors import engine_errors
from agents.runtime.docker_gang_networks import gang_networks
from agents.runtime.docker_image_cache import DockerImageCache
from agents.runtime.docker_images import ChosenImage, DockerImages
from agents.runtime.docker_log_copies import LogCopies
from agents.runtime.docker_network import HOST, Networks
from agents.runtime.docker_pull import DockerPull
from agents.runtime.docker_recipe import LABEL, PORT, ContainerRecipe
from agents.runtime.docker_start import ServingSince
from agents.runtime.docker_stop import host_pids, stop_container
from agents.runtime.grants import GrantProvider, no_grant
from agents.runtime.image import require_allowed_env
from agents.runtime.image_pull import ImageAbsent
from agents.runtime.injection import choose_injection
from agents.runtime.port_offers import PortOffers
from agents.runtime.work_folders import WORK
from agents.workspace.disk_usage import used_bytes
from agents.workspace.folders import ReplicaFolders
from agents.workspace.workspaces import Workspaces


class DockerRuntime:
    """The containers of one node on one engine. Their logs are copied into `home` as they grow.

    `work`: where the replicas work; by default beside `home`. `records`: of the images. `address`:
    of the node for other nodes. `end`: of its overlay, which is used if the engine is here."""

    kind = RuntimeKind.DOCKER

    def __init__(
        self,
        home: Path,
        node: str,
        policy: NodePolicy,
        grant: GrantProvider = no_grant,
        work: Path | None = None,
        records: ImageRecords | None = None,
        address: str = "",
        end: NodeEnd | None = None,
    ) -> None:
        self.node = node
        self.policy = policy
        engine = connect_engine()
        self.client, self.api, self.info = engine.client, engine.api, engine.info
        self._changed: Callable[[], None] = lambda: None
        self._copies = LogCopies(home, lambda: self._changed())
        toolkit = read_container_toolkit(FileTree(Path("/")), policy.nvidia_ctk)
        self.injection = choose_injection(policy, self.info, toolkit)
        self.workspaces = Workspaces(work or home.parent / WORK)
        self._recipe = ContainerRecipe(
            node, policy, self.injection, grant, self.workspaces, address
        )
        on_host = policy.network == HOST
        self.gangs = None if on_host else gang_networks(engine, end)
        self._networks = Networks(self.client, node, on_host=on_host, gangs=self.gangs)
        self.limits_egress = self._networks.limits_egress
        self._ports = PortOffers("")
        self._serving = ServingSince(self.client)
        self._ends = ContainerEnds(self.client.api)
        records = records or ImageRecords()
        self.image_cache = DockerImageCache(self.client, records, policy, self.info)
        self._images = DockerImages(self.client, records, self.image_cache)
        # A job's network and its containers are created and removed under one lock.
        self._create_lock = threading.Lock()

    def version(self) -> str:
        return str(self.info.get("ServerVersion", ""))

    def fabric(self) -> str:
        """A job's own bridge spans one engine; the host's network spans all hosts."""
        if self.gangs:
            return self.gangs.links.end.fabric
        if self.policy.network == HOST:
            return "host-network"
        return f"docker:{self.info.get('ID', '')}"

    def overlay(self) -> NodeOverlay | None:
        return self.gangs.links.end.overlay if self.gangs else None

    def connect(self, replicas: Iterable[DesiredReplica]) -> None:
        self._networks.keep_egress()
        if self.gangs:
            self.gangs.connect(replicas)

    def serving_since(self) -> float:
        with self._engine_answers("show its networks"):
            return self._serving.read()

    def watch(self, changed: Callable[[], None]) -> None:
        """Removes unused networks first: an earlier agent may have ended after it created a network
        and before its container, which is perhaps not desired any more."""
        self._changed = changed
        self.containers()
        with self._create_lock, engine_errors("remove the network"):
            self._networks.sweep()

    def containers(self) -> dict[str, ContainerStatus]:
        """An ended container counts as running until its log is complete, because a container that
        is reported as ended may be removed."""
        with self._engine_answers("list"):
            summaries = self._summaries()
            seen = [self._seen(summary) for summary in summaries]
        self._ends.keep({summary["Id"] for summary in summaries})
        return {status.replica: status for status in seen if status is not None}

    def require_image(self, image: WantedImage) -> None:
        with engine_errors("look for the image"):
            self._images.require(image)

    def image_needs(self, image: WantedImage) -> ImageNeeds:
        with engine_errors("look for the image"):
            return self._images.needs(image)

    def new_pull(
        self, image: WantedImage, credential: RegistryCredential | None = None
    ) -> DockerPull:
        return self._images.new_pull(image, credential)

    def prepare(self, replica: DesiredReplica, devices: Sequence[str]) -> None:
        """Creates it with the rendezvous that rank 0 will have; on a job's bridge it is known."""
        with engine_errors("prepare"):
            summaries = self._summaries(replica.id)
            stale = [s["Id"] for s in summaries if is_stale(s, replica.image_digest)]
            for container in stale:
                with contextlib.suppress(NotFound):
                    self.client.api.remove_container(container)
            if len(stale) == len(summaries):
                meeting = self._recipe.expected_rendezvous(replica, self._port_for(replica))
                self._create(replica, devices, meeting)

    def start(
        self, replica: DesiredReplica, devices: Sequence[str], rendezvous: Rendezvous
    ) -> None:
        """If the gang meets elsewhere than expected, or the devices were carved again since, the
        container is created again first. One that ever ran is not started a second time."""
        with engine_errors("start"):
            found = self._containers(replica.id)
            if not found and self._summaries(replica.id):
                # The engine lists a container a moment before it knows all of it.
                raise EngineUnreachable(f"Docker is still creating the container of {replica.id}")
            if not found:
                raise RuntimeFailure("vanished", "its container is gone from the node")
            container = next((c for c in found if c.status != "created"), None)
            if container is None:
                try:
                    container = self._matching_container(found, replica, devices, rendezvous)
                except ImageAbsent as absent:
                    raise RuntimeFailure("vanished", "its image is gone from the node") from absent
                self._recipe.write_launcher_files(replica, rendezvous)
                self._networks.start(container, replica)
                container.reload()
        self._copies.follow(container)

    def processes(self, replica_id: str) -> list[int]:
        with engine_errors("list the processes"):
            return [pid for c in self._containers(replica_id) for pid in host_pids(c)]

    def stop(self, replica_id: str, grace_seconds: int, before_kill: BeforeKill = None) -> None:
        for container in self._containers(replica_id):
            self._copies.follow(container)
            with engine_errors("stop"), contextlib.suppress(NotFound):
                stop_container(container, grace_seconds, before_kill)
            self._copies.wait(replica_id)

    def remove(self, replica_id: str) -> None:
        """Removes the log before the container: an agent that ends in between copies the log once
        more, and no log is left behind. The network comes last; see `watch`."""
        found = self._containers(replica_id)
        with self._copies.removing(replica_id):
            for container in found:
                with engine_errors("remove"), contextlib.suppress(NotFound):
                    container.remove(force=True)
            with self._create_lock, engine_errors("remove the network"):
                self._networks.sweep()
        self.workspaces.remove(replica_id)

    def make_folders(self, replica: DesiredReplica) -> ReplicaFolders:
        return self._recipe.make_workspace(replica)

    def keep(self, replicas: Collection[str]) -> None:
        self._ports.keep(replicas)
        self.workspaces.keep(replicas)

    def used_disk_bytes(self, replica_id: str, limit: int) -> int:
        used = used_bytes(self.workspaces.folders(replica_id).writable, limit)
        return used if used > limit else used + self._layer_bytes(replica_id)

    def log(self, replica_id: str, offset: int, limit: int) -> bytes:
        return self._copies.read(replica_id, offset, limit)

    def tidy(self) -> None:
        with self._create_lock, engine_errors("remove the network"):
            self._networks.tidy()

    def close(self) -> None:
        self._changed = lambda: None
        self._copies.close()
        self.client.close()

    def _port_for(self, replica: DesiredReplica) -> int:
        """Where it is to listen as rank 0. Only the host's network is shared with other gangs."""
        if self.policy.network != HOST:
            return PORT
        # Also those of other agents on the engine.
        found = self.client.api.containers(all=True, filters={"label": f"{LABEL}port"})
        return self._ports.offer(replica.id, {int(c["Labels"][f"{LABEL}port"]) for c in found})

    def _create(
        self, replica: DesiredReplica, devices: Sequence[str], meeting: Rendezvous
    ) -> Container:
        name = container_name(replica.job, replica.attempt, replica.rank)
        with self._create_lock:
            image = self._images.choose(replica, self.policy.wanted_image(replica))
            options = self._options(replica, devices, meeting, image)
            require_allowed_env(image.attrs, options["environment"])
            self._recipe.make_workspace(replica)
            self._recipe.write_launcher_files(replica, meeting)
            try:
                return self.client.containers.create(name=name, **options)
            except APIError as error:
                if error.status_code != 409:
                    raise
                found = self._named(name)
                if found.labels.get(f"{LABEL}replica") == replica.id:
                    return found
                sentence = f"another container has the name {name}: remove it"
                raise RuntimeFailure("name_taken", sentence) from error

    def _named(self, name: str) -> Container:
        """The container that has this name already; another node's agent may have created it.

        Raises EngineUnreachable if the engine is still creating it for an earlier request."""
        try:
            return self.client.containers.get(name)
        except NotFound as error:
            raise EngineUnreachable(f"Docker is still creating {name}") from error

    def _options(
        self,
        replica: DesiredReplica,
        devices: Sequence[str],
        meeting: Rendezvous,
        image: ChosenImage,
    ) -> dict[str, Any]:
        options = self._recipe.options(replica, devices, meeting, image)
        options |= self._networks.options_for(replica)
        if replica.gang_network and self.gangs:
            options |= self.gangs.endpoint(replica.gang_network, self.api.used)
        return options

    def _matching_container(
        self,
        candidates: list[Container],
        replica: DesiredReplica,
        devices: Sequence[str],
        meeting: Rendezvous,
    ) -> Container:
        """The container with this environment, among candidates that never ran, or a new one.

        The others are removed afterwards: a replica without any container counts as vanished."""
        env = self._recipe.environment(replica, devices, meeting)
        old = [container for container in candidates if not has_environment(container, env)]
        right = [container for container in candidates if container not in old]
        if not right:
            for container in old:
                set_aside(container)
            right = [self._create(replica, devices, meeting)]
        for container in old + right[1:]:
            container.remove()
        return right[0]

    def _filters(self, replica_id: str) -> dict[str, Any]:
        """Of this node's containers, or of those of one replica."""
        labels = [f"{LABEL}node={self.node}"]
        if replica_id:
            labels.append(f"{LABEL}replica={replica_id}")
        return {"label": labels}

    def _summaries(self, replica_id: str = "") -> list[dict[str, Any]]:
        """As the engine lists them, in one call: without how they ended."""
        with engine_errors("list"):
            found = self.client.api.containers(all=True, filters=self._filters(replica_id))
        return list(found)

    def _layer_bytes(self, replica_id: str) -> int:
        """What it has written elsewhere, where its image has folders that are open to its user: the
        engine counts that."""
        with engine_errors("measure"):
            found = self.client.api.containers(size=True, filters=self._filters(replica_id))
        return sum(int(each.get("SizeRw") or 0) for each in found)

    def _containers(self, replica_id: str) -> list[Container]:
        """The same with all that the engine knows, which is a call for each."""
        filters = self._filters(replica_id)
        with engine_errors("list"):
            found = self.client.containers.list(all=True, filters=filters, ignore_removed=True)
        return list(found)

    def _seen(self, summary: dict[str, Any]) -> ContainerStatus | None:
        """None if it was removed meanwhile."""
        replica, state = summary["Labels"][f"{LABEL}replica"], {"Status": summary["State"]}
        phase = PHASES.get(summary["State"], ContainerPhase.RUNNING)
        if phase is not ContainerPhase.CREATED and not self._copies.has_copy(replica):
            with contextlib.suppress(NotFound):
                self._copies.follow(self.client.containers.get(summary["Id"]))
        if phase is ContainerPhase.EXITED:
            try:
                state = self._ends.read(summary["Id"])
            except NotFound:
                return None
        return container_status(
            summary["Labels"], state, summary["Id"], is_complete=self._copies.is_complete(replica)
        )

    @contextlib.contextmanager
    def _engine_answers(self, action: str) -> Iterator[None]:
        """Raises RuntimeFailure if it does not: without an answer there is no round."""
        try:
            with engine_errors(action):
                yield
            self._serving.answered()
        except EngineUnreachable as away:
            self._serving.forget()
            raise RuntimeFailure("docker", str(away)) from away
