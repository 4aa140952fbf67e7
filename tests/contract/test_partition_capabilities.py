"""A slice is given to a container only with the device nodes of its two capabilities."""

import json
import sys
from pathlib import Path

import pytest

from agents.admission.policy import NodePolicy
from agents.contract.documents import ReplicaState
from agents.host.files import FileTree
from agents.partitioning.capabilities import CapabilityNodes
from agents.runtime.injection import Injection, InjectionPath
from tests.support.carving import HIGH, LOW, Carving

HERE = str(Path(__file__).resolve().parents[2])
# Stands for nvidia-smi: as NVML, it makes the nodes of all capabilities in /proc, but for those
# that a test withholds.
MAKES_NODES = """#!{python}
import pathlib, re, sys
root = pathlib.Path({root!r})
assert sys.argv[1:] == ["-L"], sys.argv
with (root / "calls").open("a") as calls:
    calls.write("nvidia-smi ")
if (root / "broken").exists():
    sys.exit("Failed to initialize NVML: " + (root / "broken").read_text())
(root / "dev/nvidia-caps").mkdir(parents=True, exist_ok=True)
withheld = (root / "withheld").read_text().split() if (root / "withheld").exists() else []
for file in (root / "proc/driver/nvidia/capabilities").rglob("access"):
    number = re.search(r"DeviceFileMinor: (\\d+)", file.read_text())[1]
    if number not in withheld:
        (root / f"dev/nvidia-caps/nvidia-cap{{number}}").touch()
"""
# Stands for nvidia-ctk: it leaves out the nodes that are not there, without an error.
DESCRIBES = """#!{python}
import json, pathlib, sys
sys.path.insert(0, {here!r})
from agents.simdriver.store import Store
root = pathlib.Path({root!r})
with (root / "calls").open("a") as calls:
    calls.write("nvidia-ctk ")
def nodes(instance):
    numbers = [10 * instance.id, 10 * instance.id + 1]
    names = [f"nvidia-caps/nvidia-cap{{n}}" for n in numbers]
    if (root / "forgetful").exists():
        names = names[:1]
    return [{{"path": f"/dev/{{n}}"}} for n in names if (root / "dev" / n).exists()]
gpus = Store(pathlib.Path({state!r})).node().gpus
devices = [{{"name": g.uuid}} for g in gpus if not g.mig_current]
devices += [
    {{"name": c.uuid, "containerEdits": {{"deviceNodes": nodes(i)}}}}
    for g in gpus for i in g.instances for c in i.compute
]
print(json.dumps({{"kind": "nvidia.com/gpu", "devices": devices}}))
"""


def write_program(path: Path, text: str, **values) -> str:
    path.write_text(text.format(python=sys.executable, here=HERE, **values), "utf-8")
    path.chmod(0o755)
    return str(path)


@pytest.fixture
def node(tmp_path):
    """A node whose agent takes its driver for a real one. Below its root the driver lists the
    capabilities 10 * N and 10 * N + 1 for instance N of GPU 0."""
    node = Carving(tmp_path)
    node.simulated = False
    for instance in range(16):
        for number, path in ((0, "access"), (1, "ci0/access")):
            file = node.root / f"proc/driver/nvidia/capabilities/gpu0/mig/gi{instance}/{path}"
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(f"DeviceFileMinor: {10 * instance + number}\nDeviceFileMode: 292\n")
    root, state = str(node.root), str(node.machine.store.path)
    smi = write_program(tmp_path / "nvidia-smi", MAKES_NODES, root=root)
    ctk = write_program(tmp_path / "nvidia-ctk", DESCRIBES, root=root, state=state)
    node.policy = NodePolicy(nvidia_smi=smi, nvidia_ctk=ctk, cdi_spec=str(tmp_path / "cdi.yaml"))
    node.injection = Injection(InjectionPath.RUNTIME)
    node.begin(node.policy)
    yield node
    node.end()


@pytest.fixture
def cdi_node(node):
    node.injection = Injection(InjectionPath.CDI, needs_spec=True)
    node.begin(node.policy)
    return node


def calls(node) -> list[str]:
    path = node.root / "calls"
    return path.read_text("utf-8").split() if path.exists() else []


def states(node) -> list[ReplicaState]:
    return [replica.state for replica in node.reported.replicas]


def test_the_nodes_are_made_after_a_carve_and_only_if_one_is_missing(node):
    assert calls(node) == []
    node.wish(LOW, replicas=(node.on(LOW),))
    assert states(node) == [ReplicaState.RUNNING]
    assert calls(node) == ["nvidia-smi"]
    node.live(10)
    node.wish(LOW, HIGH, replicas=(node.on(LOW),))
    assert calls(node) == ["nvidia-smi"], "the nodes of all instances were made by the first call"


def test_the_nodes_are_looked_for_again_only_for_other_instances(node):
    node.wish(LOW)
    instances = node.node.hardware.instances
    nodes = CapabilityNodes(FileTree(node.root), node.policy.nvidia_smi)
    assert nodes.is_stale(instances)
    assert nodes.create(instances) is None
    assert not nodes.is_stale(instances)
    node.wish(LOW, HIGH)
    assert nodes.is_stale(node.node.hardware.instances)
    (node.root / f"dev/nvidia-caps/nvidia-cap{10 * node.instance(HIGH[1])}").unlink()
    (node.root / "withheld").write_text(str(10 * node.instance(HIGH[1])))
    assert nodes.create(node.node.hardware.instances) is not None
    assert nodes.is_stale(node.node.hardware.instances), "one is missing"


@pytest.mark.parametrize("part", [0, 1], ids=["gpu-instance", "compute-instance"])
def test_a_slice_without_one_of_its_two_nodes_is_an_error_and_not_given(node, part):
    (node.root / "withheld").write_text(" ".join(str(10 * n + part) for n in range(16)))
    node.wish(LOW, replicas=(node.on(LOW),))
    (uuid,) = node.slices().values()
    assert states(node) == [ReplicaState.PREPARING]
    assert node.machine.runtime.devices == {}, "no container, on this slice or on the GPU around it"
    assert node.problems() == ["capability_missing"]
    missing = f"/dev/nvidia-caps/nvidia-cap{10 * node.instance(LOW[1]) + part}"
    assert f"3g.71gb {uuid}: {missing}." in node.sentence()
    assert node.reported.problems[0].gpu_uuid == node.gpu
    assert "slice.failed" in node.events()
    (node.root / "withheld").unlink()
    node.live(70)
    assert node.problems() == []
    assert states(node) == [ReplicaState.RUNNING]


def test_a_program_that_fails_is_quoted(node):
    (node.root / "broken").write_text("Driver/library version mismatch")
    node.wish(LOW)
    assert node.problems() == ["capability_missing"]
    assert "Driver/library version mismatch" in node.sentence()


def test_a_slice_that_the_driver_lists_no_capability_of_is_not_given(node):
    for file in (node.root / "proc/driver/nvidia/capabilities").rglob("ci0/access"):
        file.unlink()
    node.wish(LOW, replicas=(node.on(LOW),))
    assert node.problems() == ["capability_missing"]
    assert "no capability in /proc/driver/nvidia" in node.sentence()
    assert states(node) == [ReplicaState.PREPARING]


def test_other_slices_of_the_gpu_are_given_meanwhile(node):
    node.wish(LOW, HIGH)
    number = 10 * node.instance(HIGH[1])
    (node.root / f"dev/nvidia-caps/nvidia-cap{number}").unlink()
    (node.root / "withheld").write_text(str(number))
    node.begin(node.policy)
    node.wish(LOW, HIGH, replicas=(node.on(LOW), node.on(HIGH, id="r-2")))
    assert states(node) == [ReplicaState.RUNNING, ReplicaState.PREPARING]
    assert node.reported.gpus[0].healthy


def test_the_nodes_are_there_before_the_cdi_file_is_written(cdi_node):
    cdi_node.wish(LOW, replicas=(cdi_node.on(LOW),))
    assert calls(cdi_node)[-2:] == ["nvidia-smi", "nvidia-ctk"]
    assert states(cdi_node) == [ReplicaState.RUNNING]
    spec = json.loads(Path(cdi_node.policy.cdi_spec).read_text("utf-8"))
    (device,) = spec["devices"]
    assert len(device["containerEdits"]["deviceNodes"]) == 2


def test_a_cdi_file_that_names_a_slice_without_a_node_is_refused(cdi_node):
    (cdi_node.root / "forgetful").touch()
    cdi_node.wish(LOW, replicas=(cdi_node.on(LOW),))
    assert cdi_node.problems() == ["cdi_failed"]
    number = 10 * cdi_node.instance(LOW[1]) + 1
    assert f"nvidia-cap{number} of MIG-" in cdi_node.sentence()
    assert states(cdi_node) == [ReplicaState.PREPARING]


@pytest.mark.parametrize(
    ("simulated", "injection"), [(False, None), (True, Injection(InjectionPath.RUNTIME))]
)
def test_plain_processes_and_simulated_drivers_need_no_nodes(node, simulated, injection):
    node.simulated, node.injection = simulated, injection
    node.begin(node.policy)
    node.wish(LOW, replicas=(node.on(LOW),))
    assert states(node) == [ReplicaState.RUNNING]
    assert calls(node) == []
