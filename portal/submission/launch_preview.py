"""What a request would start in its replicas: command, environment and files of each rank. Pure.

`agents/launchers/` makes them, as it does on a node. Addresses, ports and ids of devices are
examples: only a placed attempt has its own. Values of secrets are not known here, and those of
variables that look like secrets are hidden.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from agents.contract.documents import DesiredReplica, Device, SliceKind
from agents.contract.job_secrets import SecretForm
from agents.launchers.preview import assumed_devices, assumed_rendezvous, gang_starts
from scheduler.core.request import JobRequest
from scheduler.core.request.secrets import desired_secrets
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
    """The first ones, in rank order."""
    omitted_replicas: int
    """How many more there are."""

    @property
    def is_image_program(self) -> bool:
        """Whether no replica has a command, so that the image runs its own."""
        return not self.command and not any(each.command for each in self.replicas)


def launch_preview(request: JobRequest, nodes: Mapping[int, str]) -> LaunchPreview:
    """`nodes`: by rank, where it would start at once."""
    replica = requested_replica(request)
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
                node=nodes.get(start.rank, ""),
                command=() if is_same else tuple(start.command),
                environment=_own(environment, common_env),
                files=_own(start.files, common_files),
            )
            for start, environment in zip(starts, environments, strict=True)
        ),
        omitted_replicas=replica.world - len(starts),
    )


def requested_replica(request: JobRequest) -> DesiredReplica:
    """Rank 0 as a node would get it, before anything is placed."""
    return DesiredReplica(
        id="replica-0",
        job="job",
        world=request.replicas,
        project=request.project,
        name=request.name,
        image=request.image,
        command=request.command,
        launcher=request.launcher,
        env={name: HIDDEN if looks_secret(name) else text for name, text in request.env.items()},
        devices=_devices(request),
        processes=request.processes,
        backend=request.backend,
    )


def _devices(request: JobRequest) -> tuple[Device, ...]:
    """An amount of memory counts as a slice, as in the check of a request."""
    device = request.device
    if device.gpus:
        return tuple(Device(f"a-{n}", f"s-{n}") for n in range(device.gpus))
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
