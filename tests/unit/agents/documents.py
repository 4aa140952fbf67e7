"""Whole documents with every field set, for tests of the wire."""

from agents.contract.caches import OfferedCache
from agents.contract.documents import (
    DesiredDocument,
    DesiredGpu,
    DesiredReplica,
    DesiredReplicaState,
    DesiredSlice,
    Device,
    GpuMode,
    NodeFacts,
    ObservedDocument,
    ObservedGpu,
    ObservedReplica,
    ObservedSlice,
    Rendezvous,
    ReplicaState,
    RuntimeKind,
    SliceKind,
    SliceProblem,
)
from agents.contract.egress import EgressPolicy
from agents.contract.gang_network import GangNetwork, GangPeer, NodeOverlay, OverlayKind
from agents.contract.git_source import DesiredGitCode
from agents.contract.image_needs import ImageNeeds
from agents.contract.job_secrets import DesiredSecret, SecretForm
from agents.contract.notebooks import NotebookActivity
from agents.contract.profilers import Profiler
from agents.contract.pulls import ObservedPull
from agents.contract.rank_network import RankNetwork
from agents.contract.topology import (
    FabricClique,
    GpuGroup,
    GpuPair,
    GroupKind,
    NodeTopology,
    ReportedNic,
)
from agents.contract.volumes import DesiredVolume, OfferedRoot, VolumeSize

GPU = "GPU-5a1d"
KEY = "k" * 43 + "="
NETWORK = GangNetwork(
    id=7,
    kind=OverlayKind.WIREGUARD,
    subnet="10.213.7.0/24",
    address="10.213.7.3",
    mtu=1_350,
    peers=(
        GangPeer(0, "tessera-j-1-2-0", "10.213.7.2", "192.0.2.1", 14_789, KEY),
        GangPeer(1, "tessera-j-1-2-1", "10.213.7.3", "192.0.2.2", 14_789, KEY),
    ),
)
VOLUMES = (DesiredVolume("images", "datasets", "team/images", "/data", False),)
SECRETS = (
    DesiredSecret("HF_TOKEN"),
    DesiredSecret("WANDB_API_KEY", SecretForm.ENV),
    DesiredSecret("DEPLOY_KEY", SecretForm.GIT),
)
CODE = DesiredGitCode("git+https://git.example/app.git@main", "1" * 40, "DEPLOY_KEY")
PLACE = {"gpu_uuid": GPU, "profile": "2g.35gb", "start": 4, "size": 2}


def a_device(**fields):
    return Device(**{"allocation": "a-1", "slice": "s-1", "kind": SliceKind.MIG} | PLACE | fields)


def a_replica(**fields):
    whole = {
        "id": "r-1",
        "job": "j-1",
        "attempt": 2,
        "rank": 1,
        "world": 2,
        "fence": 7,
        "wish": DesiredReplicaState.RUN,
        "image": "registry.local/train:1",
        "command": ("python", "train.py"),
        "launcher": "torchrun",
        "env": {"SEED": "1"},
        "devices": (a_device(),),
        "processes": 2,
        "rendezvous": Rendezvous("10.0.0.1", 29_500, ("10.0.0.1", "10.0.0.2")),
    }
    return DesiredReplica(**whole | fields)


def a_desired(**fields):
    whole = {
        "node": "n-1",
        "revision": 3,
        "gpus": (DesiredGpu(GPU, GpuMode.MIG),),
        "slices": (DesiredSlice(id="s-1", **PLACE),),
        "replicas": (
            a_replica(gang_network=NETWORK, egress=EgressPolicy.INTERNET),
            a_replica(
                id="r-2", rank=0, rendezvous=None, devices=(), secrets=SECRETS, volumes=VOLUMES
            ),
            a_replica(id="r-3", secrets=SECRETS, code_git=CODE, profiler=Profiler.PYTORCH),
        ),
        "allow_mass_removal": True,
    }
    return DesiredDocument(**whole | fields)


def an_observed(**fields):
    whole = {
        "node": "n-1",
        "boot_id": "b-1",
        "facts": NodeFacts(
            cpu_milli=8_000,
            runtime=RuntimeKind.PROCESS,
            problems=("no fabric",),
            disk_mib=1_024,
            architecture="amd64",
            pins_images=True,
            volume_roots=(
                OfferedRoot("datasets", True, 10, 20, (VolumeSize("a", 1, 2, True, 3),)),
                OfferedRoot("fast", driver="local"),
            ),
            caches=(OfferedCache("models", "HF_HUB_CACHE", ("vision",)),),
            git_hosts=("github.com", "git.example:8443"),
            address="192.0.2.2",
            overlay=NodeOverlay("wireguard", 14_789, KEY, 1_350),
            limits_egress=True,
            has_profiler=True,
            rank_network=RankNetwork("bond0", "InfiniBand", peermem=True, gdr_level="PXB"),
        ),
        "gpus": (ObservedGpu(GPU, 0, "NVIDIA H200", "H200-141GB", 143_771, GpuMode.MIG),),
        "slices": (ObservedSlice(**PLACE, uuid="MIG-1"),),
        "replicas": (
            ObservedReplica(id="r-1", job="j-1", state=ReplicaState.EXITED, exit_code=-9),
            ObservedReplica(
                id="r-2", job="j-1", address="10.0.0.1", port=29_500, image_digest="id:7"
            ),
            ObservedReplica(id="r-5", job="j-1", code_commit="1" * 40),
            ObservedReplica(id="r-6", job="j-2", notebook=NotebookActivity(7)),
            ObservedReplica(id="r-3", job="j-1", pull=ObservedPull(3, 12, 1 << 30, 8 << 30)),
            ObservedReplica(id="r-4", job="j-1", image_needs=ImageNeeds(("cuda>=12.4",), "arm64")),
        ),
        "problems": (SliceProblem(GPU, "s-2", "in_use", "slice at 0 is still in use"),),
        "topology": NodeTopology(
            gpus=(0, 1),
            pairs=(GpuPair(0, 1, "SYS", 4, False, 100_000),),
            groups=(GpuGroup(GroupKind.NVLINK, (0, 1), 100_000),),
            cliques=(FabricClique("c-1", 2, (0, 1)),),
            nics=(ReportedNic("mlx5_0", "InfiniBand", True, True, 50_000, 1, ("PIX", ""), (0,)),),
        ),
    }
    return ObservedDocument(**whole | fields)
