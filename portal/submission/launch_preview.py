"""What a request would start in its replicas: command, environment and files of each rank. Pure.

`agents/launchers/` makes them, as it does on a node. Addresses, ports and ids of devices are
examples: only a placed attempt has its own. Values of secrets are not known here, and those of
variables that look like secrets are hidden.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from agents.contract.documents import DesiredReplica, Device, SliceKind
from agents.contract.job_secrets import SecretForm
from agents.contract.message import NO_MESSAGE, Message
from agents.launchers.preview import assumed_devices, assumed_rendezvous, gang_starts
from scheduler.core.model.snapshot import SINGLE_NODE
from scheduler.core.placement.joined_replicas import container_ranks, joined_count, may_join
from scheduler.core.request import JobRequest
from scheduler.core.request.secrets import desired_secrets
from scheduler.core.request.values import ContainerSharing
from scheduler.core.request.warnings import looks_secret

# Replicas that are told one by one: each may name all others, as in TF_CONFIG.
MAX_REPLICAS = 8
HIDDEN = "(hidden)"
FROM_SECRETS = "(from your secrets)"


@dataclass(frozen=True, slots=True)
class LaunchedReplica:
    """What of a replica's start differs from the others."""

    rank: int
    node: str
    """Empty where it would not start at once."""
    command: tuple[str, ...]
    """Empty where all replicas have the same."""
    environment: Mapping[str, str]
    files: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class LaunchPreview:
    """The starts of the replicas in containers: first what they have in common."""

    command: tuple[str, ...]
    """Empty where each has its own, or the image's."""
    environment: Mapping[str, str]
    files: Mapping[str, str]
    """Texts by path in the container."""
    replicas: tuple[LaunchedReplica, ...]
    """The first ones, in rank order: containers of the attempt."""
    omitted_replicas: int
    """How many more there are."""
    joined_replicas: int = 1
    """How many replicas of the request each of these runs."""
    sharing: Message = NO_MESSAGE
    """How replicas on one node share a container; empty where they do not."""

    @property
    def is_image_program(self) -> bool:
        """Whether no replica has a command, so that the image runs its own."""
        return not self.command and not any(each.command for each in self.replicas)


def launch_preview(request: JobRequest, nodes: Mapping[int, str]) -> LaunchPreview:
    """`nodes`: by rank, where it would start at once."""
    places = [nodes[rank] for rank in sorted(nodes)]
    # Of several sizes, the one that would start at once; else the least.
    request = replace(request, replicas=len(places) or request.replicas, max_replicas=0)
    joined = _joined(request, places)
    container_nodes = [places[ranks[0]] for ranks in container_ranks(places, joined)]
    replica = requested_replica(request, joined)
    devices = assumed_devices(replica, MAX_REPLICAS)
    starts = gang_starts(replica, assumed_rendezvous(replica.world), devices)
    of_secrets = {
        secret.name: FROM_SECRETS
        for secret in desired_secrets(request.secrets)
        if secret.form is SecretForm.ENV
    }
    environments = [{**start.environment, **of_secrets} for start in starts]
    common_env, common_files = _common(environments), _common([start.files for start in starts])
    commands = {tuple(start.command) for start in starts}
    is_same = len(commands) == 1
    return LaunchPreview(
        command=tuple(starts[0].command) if is_same else (),
        environment=common_env,
        files=common_files,
        replicas=tuple(
            LaunchedReplica(
                rank=start.rank,
                node=container_nodes[start.rank] if container_nodes else "",
                command=() if is_same else tuple(start.command),
                environment=_own(environment, common_env),
                files=_own(start.files, common_files),
            )
            for start, environment in zip(starts, environments, strict=True)
        ),
        omitted_replicas=replica.world - len(starts),
        joined_replicas=joined,
        sharing=_sharing(request, joined, is_placed=bool(places)),
    )


def _may_share(request: JobRequest) -> bool:
    return request.containers is ContainerSharing.PER_NODE and may_join(request)


def _joined(request: JobRequest, places: Sequence[str]) -> int:
    """How many replicas each container runs, as far as that is known: `places` is empty where it is
    not known on which nodes they would be."""
    if not places and request.topology in SINGLE_NODE:
        places = [""] * request.replicas
    return joined_count(request, places) if places and _may_share(request) else 1


def _sharing(request: JobRequest, joined: int, *, is_placed: bool) -> Message:
    if joined > 1:
        return Message(
            "Each container runs %(joined)s of the %(replicas)s replicas, with the GPUs and the "
            "processes of all of them.",
            joined=joined,
            replicas=request.replicas,
        )
    if is_placed or not _may_share(request):
        return NO_MESSAGE
    return Message(
        "Replicas that come to one node share a container there, as far as all containers of the "
        "job then have equally many."
    )


def requested_replica(request: JobRequest, joined: int = 1) -> DesiredReplica:
    """Rank 0 as a node would get it, before anything is placed. `joined`: how many replicas run as
    one."""
    return DesiredReplica(
        id="replica-0",
        job="job",
        world=request.replicas // joined,
        project=request.project,
        name=request.name,
        image=request.image,
        command=request.command,
        launcher=request.launcher,
        env={name: HIDDEN if looks_secret(name) else text for name, text in request.env.items()},
        devices=_devices(request, joined),
        processes=request.processes * joined,
        backend=request.backend,
    )


def _devices(request: JobRequest, joined: int) -> tuple[Device, ...]:
    """An amount of memory counts as a slice, as in the check of a request."""
    device = request.device
    if device.gpus:
        return tuple(Device(f"a-{n}", f"s-{n}") for n in range(device.gpus * joined))
    if device.mps_threads:
        return (Device("a-0", "s-0", SliceKind.MPS, threads=device.mps_threads),)
    return (Device("a-0", "s-0", SliceKind.MIG, profile=device.mig),)


def _common(texts: Sequence[Mapping[str, str]]) -> dict[str, str]:
    """What all have, with the same text."""
    first, *others = texts
    return {
        name: text
        for name, text in first.items()
        if all(other.get(name) == text for other in others)
    }


def _own(texts: Mapping[str, str], common: Mapping[str, str]) -> dict[str, str]:
    return {name: text for name, text in texts.items() if name not in common}
