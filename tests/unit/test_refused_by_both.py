"""What nobody may have is refused twice, each time with a code and a sentence: by the portal when
it is asked or planned, and by the agent alone, whatever a portal that was taken over sends it."""

from collections.abc import Callable
from dataclasses import dataclass

import pytest

from agents.admission.local_checks import local_refusal
from agents.admission.policy import NodePolicy
from agents.contract.codec import decode, encode
from agents.contract.documents import (
    CollectiveBackend,
    DesiredDocument,
    Device,
    RuntimeKind,
    SliceKind,
)
from agents.contract.git_source import DesiredGitCode
from agents.contract.launcher_names import LauncherName
from agents.facts.gpus import InstanceFacts
from scheduler.core.request import RequestLimits, parse_request
from tests.support.both_sides import (
    GPU,
    MEMORY,
    MPS,
    REQUEST,
    WHOLE,
    Told,
    a_claim,
    built,
    carved,
    crowded,
    given,
    mig,
    never,
    placed,
    portal_refusal,
    sent,
    share,
    shared,
)
from tests.support.snapshots import H200, L40S, a_gpu, a_share, a_slice
from tests.unit.agents.documents import a_desired, a_replica

HELD = InstanceFacts(GPU, 5, "1g.18gb", 19, 6, 1, "MIG-1")
HALF = InstanceFacts(GPU, 1, "4g.71gb", 5, 0, 4, "MIG-2")
HOST_PATH = [{"host": "/etc", "at": "/data"}]
LINK = [{"source": "/srv/data/link", "follow_symlinks": True}]
BAD_NAMES = ("NVIDIA_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER")
BAD_NAMES += ("CUDA_MPS_PIPE_DIRECTORY", "CUDA_INJECTION64_PATH", "LD_PRELOAD", "LD_AUDIT")


@dataclass(frozen=True)
class Row:
    """One thing that nobody gets. `portal` None: the portal cannot see it (docs/limits.md)."""

    portal: Callable[[], Told] | None
    by_portal: Told
    agent: Callable[[], Told]
    by_agent: Told


def gang_of(kind):
    device = (
        {"mig": "2g.35gb"} if kind is SliceKind.MIG else {"mps": {"threads": 9, "memory": "1GiB"}}
    )
    return lambda: portal_refusal(backend="nccl", replicas=2, device=device)


def ranks_on(kind):
    device = Device("a-1", "s-1", kind, gpu_uuid=GPU)
    return lambda: given(backend=CollectiveBackend.NCCL, world=2, processes=1, devices=(device,))


def thin(memory):
    return {"mps": {"threads": 3, "memory": memory}}


def two_gpus():
    return tuple(Device(f"a-{n}", f"s-{n}", SliceKind.GPU, gpu_uuid=f"GPU-{n}") for n in (1, 2))


TABLE = (
    {
        "placements that overlap": Row(
            lambda: placed(a_gpu(), mig("3g.71gb", 0), mig("2g.35gb", 2)),
            ("fragmentation", "place on the GPU is no longer free"),
            lambda: carved(("3g.71gb", 0, 4), ("2g.35gb", 2, 2)),
            ("illegal_layout", "cannot have 2g.35gb at 2, 3g.71gb at 0 together"),
        ),
        "a placement over a slice in use": Row(
            lambda: placed(a_gpu(a_slice("4g.71gb", 0)), mig("2g.35gb", 2)),
            ("fragmentation", "no longer free"),
            lambda: carved(("2g.35gb", 2, 2), live=[HALF], held=[(GPU, 0, 4)]),
            ("in_use", "slice at 0 of GPU 0 is still in use"),
        ),
        "a start that the driver does not list": Row(
            lambda: placed(a_gpu(), mig("2g.35gb", 1)),
            ("fragmentation", "no longer free"),
            lambda: carved(("2g.35gb", 1, 2)),
            ("illegal_layout", "2g.35gb at 1"),
        ),
        "more compute slices than there are": Row(
            lambda: placed(a_gpu(), mig("4g.71gb", 0), mig("3g.71gb", 4), mig("1g.18gb", 7)),
            ("fragmentation", "no longer free"),
            lambda: carved(*[("1g.18gb", start, 1) for start in range(8)]),
            ("illegal_layout", "1g.18gb at 7"),
        ),
        "a second instance with media engines": Row(
            lambda: placed(a_gpu(), mig("1g.18gb+me", 0), mig("1g.18gb+me", 1)),
            ("fragmentation", "no longer free"),
            lambda: carved(("1g.18gb+me", 0, 1), ("1g.18gb+me", 1, 1)),
            ("illegal_layout", "1g.18gb+me at 1 together"),
        ),
        "a profile of another board": Row(
            lambda: never(a_gpu(), mig="1g.5gb"),
            ("impossible", "No GPU here has the profile 1g.5gb"),
            lambda: carved(("1g.5gb", 0, 1)),
            ("no_such_profile", f"({H200}) has no profile 1g.5gb"),
        ),
        "a partial compute instance": Row(
            lambda: portal_refusal(device={"mig": "1c.3g.71gb"}),
            ("invalid_value", "device.mig: write a MIG profile"),
            lambda: carved(("1c.3g.71gb", 0, 4)),
            ("no_such_profile", "has no profile 1c.3g.71gb"),
        ),
        "MIG on a board without it": Row(
            lambda: never(a_gpu(board=L40S), mig="1g.18gb"),
            ("impossible", "these boards do not support MIG"),
            lambda: carved(("1g.18gb", 0, 1), board=L40S),
            ("no_mig", f"({L40S}) has no MIG"),
        ),
        "MIG on, on a GPU that is given whole": Row(
            lambda: placed(a_gpu(a_slice("")), mig("1g.18gb", 0)),
            ("fragmentation", "no longer free"),
            lambda: carved(("1g.18gb", 0, 1), now=WHOLE, held=[(GPU, 0, 0)]),
            ("in_use", "changes its mode when nothing of it is in use"),
        ),
        "MIG off, on a GPU with a slice in use": Row(
            lambda: placed(a_gpu(a_slice("1g.18gb", 6)), (SliceKind.GPU, "", 0, 0, 0)),
            ("resources", "the GPU is no longer empty"),
            lambda: carved(mode=WHOLE, live=[HELD], held=[(GPU, 6, 1)]),
            ("in_use", "changes its mode when nothing of it is in use"),
        ),
        "slices and shares of all of one GPU": Row(
            lambda: placed(a_gpu(a_share()), mig("1g.18gb", 0)),
            ("fragmentation", "no longer free"),
            lambda: carved(("1g.18gb", 0, 1), mode=MPS),
            ("mode_mps", "shared as a whole and have slices at once"),
        ),
        "a share of more than 100 %": Row(
            lambda: portal_refusal(device={"mps": {"threads": 101, "memory": "1GiB"}}),
            ("out_of_range", "device.mps.threads: write a percentage from 1 to 100"),
            lambda: shared(a_claim(threads=101)),
            ("mps_over_threads", "1 to 100 % of the SMs, this one has 101 %"),
        ),
        "shares of more than 100 % together": Row(
            lambda: placed(a_gpu(a_share(60, 1_000)), share(50, 1_000), mps=(50, 1_000)),
            ("resources", "no longer room for this share"),
            lambda: shared(a_claim("r-1"), running=[a_claim("r-0", threads=51)]),
            ("mps_over_threads", "101 % of the SMs"),
        ),
        "a share of less than 1 % for each process": Row(
            lambda: portal_refusal(device=thin("1GiB"), launcher="torchrun", processes=4),
            ("invalid_combination", "processes: 3 % of the SMs is less than 1 % for each of 4"),
            lambda: shared(a_claim(threads=3, processes=4)),
            ("mps_over_threads", "3 % of the SMs is less than 1 % for each of 4 processes"),
        ),
        "a placed share of less than 1 % for each process": Row(
            lambda: placed(a_gpu(), share(3, 1_000), mps=(3, 1_000), processes=4),
            ("resources", "no longer room for this share"),
            lambda: shared(a_claim(threads=3, processes=4)),
            ("mps_over_threads", "3 % of the SMs is less than 1 % for each of 4 processes"),
        ),
        "more processes than an MPS server takes": Row(
            lambda: never(a_gpu(), mps=(64, 1_000), processes=49, launcher=LauncherName.TORCHRUN),
            (
                "impossible",
                "49 processes in one share are too many: MPS on a H200-141GB GPU serves 48",
            ),
            lambda: shared(a_claim(threads=64, processes=49)),
            ("mps_clients", "49 processes: an MPS server takes 48 clients on this device"),
        ),
        "a share of more memory than a GPU has": Row(
            lambda: never(a_gpu(), mps=(25, MEMORY + 1)),
            ("impossible", f"No GPU here has {MEMORY + 1} MB"),
            lambda: shared(a_claim(memory_mib=MEMORY + 1)),
            ("mps_over_memory", f"the device has {MEMORY}"),
        ),
        "shares of more memory together": Row(
            lambda: placed(a_gpu(a_share(10, MEMORY)), share(10, 1), mps=(10, 1)),
            ("resources", "no longer room for this share"),
            lambda: shared(a_claim(memory_mib=1), running=[a_claim("r-0", memory_mib=MEMORY)]),
            ("mps_over_memory", f"{MEMORY + 1} MiB"),
        ),
        "more disk than a node has": Row(
            lambda: never(a_gpu(), gpus=1, disk_mib=2_049),
            ("impossible", "No node with this GPU has 2049 MB of disk for jobs; the largest has"),
            lambda: crowded(1_024, ("r-1", 2_049)),
            ("disk", "2049 MiB of disk requested beside 0 MiB in use; this node has 1024 MiB"),
        ),
        "more disk than others leave": Row(
            lambda: placed(a_gpu(), (SliceKind.GPU, "", 0, 0, 0), gpus=1, disk_mib=2_048),
            ("resources", "lacks CPU, memory or disk"),
            lambda: crowded(2_048, ("r-0", 1_024), ("r-1", 1_025)),
            ("disk", "1025 MiB of disk requested beside 1024 MiB in use; this node has 2048 MiB"),
        ),
        "shares of two projects on one GPU": Row(
            lambda: placed(a_gpu(a_share(project="q")), share(10, 1), mps=(10, 1), project="p"),
            ("resources", "no longer room for this share"),
            lambda: shared(a_claim(project="p-1"), running=[a_claim("r-0", project="p-2")]),
            ("mps_projects", "projects do not share an MPS daemon"),
        ),
        "NCCL between MIG slices": Row(
            gang_of(SliceKind.MIG),
            ("invalid_combination", "backend: NCCL cannot connect 2 processes on MIG slices"),
            ranks_on(SliceKind.MIG),
            ("nccl_on_mig", "NCCL cannot connect 2 processes on MIG slices"),
        ),
        "NCCL between MPS shares": Row(
            gang_of(SliceKind.MPS),
            ("invalid_combination", "backend: NCCL cannot connect 2 processes on MPS shares"),
            ranks_on(SliceKind.MPS),
            ("nccl_on_mps", "NCCL cannot connect 2 processes on MPS shares"),
        ),
        "several NCCL processes on one slice": Row(
            lambda: portal_refusal(backend="nccl", launcher="torchrun", processes=2),
            ("invalid_combination", "backend: NCCL cannot connect 2 processes on MIG slices"),
            lambda: given(backend=CollectiveBackend.NCCL, world=1, rank=0, processes=2),
            ("nccl_on_mig", "NCCL cannot connect 2 processes on MIG slices"),
        ),
        "more processes than whole GPUs": Row(
            lambda: portal_refusal(device={"gpus": 2}, launcher="torchrun", processes=3),
            ("invalid_combination", "processes: 3 processes need 3 GPUs, and a replica has 2"),
            lambda: given(devices=two_gpus(), processes=3),
            ("processes_over_gpus", "3 processes need 3 GPUs, and a replica has 2"),
        ),
        "an image that is not allowed": Row(
            lambda: portal_refusal(image="evil.example/sum:1"),
            ("not_allowed", "evil.example/sum:1 is not allowed here"),
            lambda: given(NodePolicy(images=("registry.example/*",)), image="evil.example/sum:1"),
            ("policy", "evil.example/sum:1 is not allowed by this node's policy"),
        ),
        "privileged mode": Row(
            lambda: portal_refusal(privileged=True),
            ("unknown_field", "privileged: unknown field"),
            lambda: sent(privileged=True),
            ("unknown_field", "replicas.0.privileged: 'privileged' is not a field here"),
        ),
        "a capability": Row(
            lambda: portal_refusal(cap_add=["SYS_ADMIN"]),
            ("unknown_field", "cap_add: unknown field"),
            lambda: sent(cap_add=["SYS_ADMIN"]),
            ("unknown_field", "replicas.0.cap_add"),
        ),
        "a path of the host": Row(
            lambda: portal_refusal(volumes=HOST_PATH),
            ("wrong_type", "write a volume as NAME:/path"),
            lambda: sent(volumes=HOST_PATH),
            ("unknown_field", "replicas.0.volumes.0.host"),
        ),
        "a path of the host by another word": Row(
            lambda: portal_refusal(mounts=HOST_PATH),
            ("unknown_field", "mounts: unknown field"),
            lambda: sent(mounts=HOST_PATH),
            ("unknown_field", "replicas.0.mounts"),
        ),
        "a symlink in a volume": Row(
            lambda: portal_refusal(volumes=LINK),
            ("wrong_type", "write a volume as NAME:/path"),
            lambda: sent(volumes=LINK),
            ("unknown_field", "replicas.0.volumes.0.source"),
        ),
        "a device of the host": Row(
            lambda: portal_refusal(host_devices=["/dev/nvidia0"]),
            ("unknown_field", "host_devices: unknown field"),
            lambda: sent(host_devices=["/dev/nvidia0"]),
            ("unknown_field", "replicas.0.host_devices"),
        ),
        "a repository on the node itself": Row(
            lambda: portal_refusal(code="git+https://127.0.0.1/a"),
            ("invalid_value", "code: 127.0.0.1 is not reached from nodes"),
            lambda: given(code_git=DesiredGitCode("git+https://127.0.0.1/a")),
            ("policy", "127.0.0.1 is not reached from nodes"),
        ),
        "a repository by git's own transports": Row(
            lambda: portal_refusal(code="ext::sh -c id"),
            ("invalid_value", "code: write git+https://"),
            lambda: given(code_git=DesiredGitCode("ext::sh -c id")),
            ("policy", "code: write git+https://"),
        ),
        "an option in place of a ref": Row(
            lambda: portal_refusal(code="git+https://git.example/a@--upload-pack=id"),
            ("invalid_value", "is not a branch, a tag or a commit"),
            lambda: given(code_git=DesiredGitCode("git+https://git.example/a@--upload-pack=id")),
            ("policy", "is not a branch, a tag or a commit"),
        ),
        "a name that hides another": Row(
            lambda: portal_refusal(env={"A=B": "c"}),
            ("invalid_value", "letters, digits and underscores only"),
            lambda: given(env={"A=B": "c"}),
            ("policy", "'A=B' is not a valid environment name"),
        ),
    }
    | {
        f"{name} from a user": Row(
            lambda name=name: portal_refusal(env={name: "all"}),
            ("reserved_name", f"{name} is set by Tessera"),
            lambda name=name: given(env={name: "all"}),
            ("policy", f"environment name {name} is reserved"),
        )
        for name in BAD_NAMES
    }
    | {
        f"{name} from an image": Row(
            None,
            ("", ""),
            lambda name=name: built("PATH=/bin", f"{name}=x"),
            ("image_env", f"the image sets {name}, which is not allowed"),
        )
        for name in BAD_NAMES
    }
)


@pytest.mark.parametrize("case", [name for name, row in TABLE.items() if row.portal])
def test_the_portal_refuses_it_with_a_code_and_a_sentence(case):
    row = TABLE[case]
    code, sentence = row.portal()
    assert code == row.by_portal[0], sentence
    assert row.by_portal[1] in sentence


@pytest.mark.parametrize("case", TABLE)
def test_the_agent_alone_refuses_it_with_a_code_and_a_sentence(case):
    row = TABLE[case]
    code, sentence = row.agent()
    assert code == row.by_agent[0], sentence
    assert row.by_agent[1] in sentence


def test_what_is_good_is_refused_by_neither():
    parse_request(REQUEST | {"env": {"CUDA_LAUNCH_BLOCKING": "1"}}, RequestLimits())
    good = a_replica(env={"CUDA_LAUNCH_BLOCKING": "1", "CUDA_CACHE_PATH": "/tmp/c"})
    assert local_refusal(good, NodePolicy(), RuntimeKind.DOCKER) is None
    assert (
        local_refusal(a_replica(devices=two_gpus(), processes=2), NodePolicy(), RuntimeKind.DOCKER)
        is None
    )
    assert decode(DesiredDocument, encode(a_desired())) == a_desired()
