"""Which devices containers can be given: their device nodes exist, and the CDI file, where devices
are looked up in one, describes them whole."""

from collections.abc import Iterable, Mapping

from agents.admission.policy import NodePolicy
from agents.facts.device_keys import DeviceKey, whole_gpu_key
from agents.facts.gpus import InstanceFacts
from agents.facts.partitions import PartitionProblem
from agents.host.files import HostFiles
from agents.partitioning import cdi
from agents.partitioning.capabilities import CapabilityNodes
from agents.partitioning.cdi import CdiSpec
from agents.runtime.injection import Injection

# The parts to prepare, in order: the file describes only nodes that exist. They are also the
# subjects of their failures.
NODES, SPEC = "capabilities", "cdi"
PARTS = (NODES, SPEC)


class ContainerDevices:
    """The devices of one node. `injection`: None if its replicas are no containers.

    A simulated driver has no device nodes, so none are required of it."""

    def __init__(
        self, policy: NodePolicy, injection: Injection | None, files: HostFiles, *, simulated: bool
    ) -> None:
        self._nodes = self._spec = None
        if injection is not None and not simulated:
            self._nodes = CapabilityNodes(files, policy.nvidia_smi)
        if injection is not None and injection.needs_spec:
            self._spec = CdiSpec(policy.nvidia_ctk, policy.cdi_spec)

    def is_available(self, key: DeviceKey, uuid: str) -> bool:
        is_slice = key != whole_gpu_key(key[0])
        if is_slice and self._nodes is not None and not self._nodes.has_nodes(uuid):
            return False
        return self._spec is None or self._spec.has_device(uuid)

    def is_stale(
        self, part: str, instances: Iterable[InstanceFacts], devices: Mapping[DeviceKey, str]
    ) -> bool:
        """Whether this part was not prepared for exactly these instances and devices."""
        if part == NODES:
            return self._nodes is not None and self._nodes.is_stale(instances)
        return self._spec is not None and self._spec.is_stale(self._described(devices))

    def prepare(
        self, part: str, instances: Iterable[InstanceFacts], devices: Mapping[DeviceKey, str]
    ) -> PartitionProblem | None:
        """Make this part for these instances and devices. What is incomplete is not given."""
        if part == NODES and self._nodes is not None:
            return self._nodes.create(instances)
        if part == SPEC and self._spec is not None:
            why = self._spec.generate(self._described(devices))
            sentence = f"containers get no new devices: {why}"
            return PartitionProblem("", cdi.FAILED, sentence) if why else None
        return None

    def _described(self, devices: Mapping[DeviceKey, str]) -> dict[str, frozenset[str]]:
        """By UUID, the nodes that the file must have for each device whose nodes exist."""
        if self._nodes is None:
            return {uuid: frozenset() for uuid in devices.values()}
        nodes = self._nodes
        return {
            uuid: nodes.paths.get(uuid, frozenset())
            for key, uuid in devices.items()
            if key == whole_gpu_key(key[0]) or nodes.has_nodes(uuid)
        }
