"""C symbol about the NVLink fabric: which cluster and clique a GPU belongs to.

By nvml.h the call is for Hopper and newer. There a GPU on NVSwitches registers with the fabric
manager; inside one node (HGX) the cluster is all zeros and the clique 0, on NVL systems over
several nodes the cluster has a UUID. Not verified on hardware: the zeros, and that a Hopper board
without NVSwitches answers the state NOT_SUPPORTED instead of an error.
"""

from collections.abc import Callable
from typing import Any
from uuid import UUID

from agents.simdriver.codes import Code, DriverError
from agents.simdriver.handles import gpu_of
from agents.simdriver.layouts import LAYOUTS

VERSION = 33_554_468  # nvmlGpuFabricInfo_v2
STATE_NOT_SUPPORTED, STATE_COMPLETED = 0, 3
WITHOUT = ("turing", "ampere", "ada")


def _fabric(library: Any, handle: Any, out: Any) -> None:
    ref = library.handles.ref(handle)
    node = library.store.node()
    gpu = gpu_of(node, ref)
    if ref.gpu_instance is not None:
        raise DriverError(Code.INVALID_ARGUMENT)
    if gpu.kind.architecture in WITHOUT:
        raise DriverError(Code.NOT_SUPPORTED)
    info = getattr(out, "_obj", out)
    if info.version != VERSION:
        raise DriverError(Code.ARGUMENT_VERSION_MISMATCH)
    is_joined = bool(LAYOUTS[node.layout].switches)
    cluster = UUID(node.fabric_cluster).bytes if is_joined and node.fabric_cluster else bytes(16)
    for index, byte in enumerate(cluster):
        info.clusterUuid[index] = byte
    info.cliqueId = node.fabric_clique if is_joined else 0
    info.status = int(Code.SUCCESS)
    info.state = STATE_COMPLETED if is_joined else STATE_NOT_SUPPORTED


FABRIC_SYMBOLS: dict[str, Callable[..., Any]] = {"nvmlDeviceGetGpuFabricInfoV": _fabric}
