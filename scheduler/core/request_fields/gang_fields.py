"""Rows of the table: where the replicas of a gang are, and how they reach each other."""

from scheduler.core.request_fields.field import FieldGroup, FieldKind, RequestField

_CHOICE, _WHERE = FieldKind.CHOICE, FieldGroup.WHERE

GANG_FIELDS: tuple[RequestField, ...] = (
    RequestField(
        *("topology", _CHOICE, _WHERE, "Topology", "How close together its devices are."),
        default="best",
        attribute="topology",
        choices=("best", "same-node", "nvlink", "any"),
        flags=("--topology",),
    ),
    RequestField(
        *("backend", _CHOICE, _WHERE, "Backend"),
        "The communication backend of distributed processes.",
        default="auto",
        attribute="backend",
        choices=("auto", "nccl", "gloo"),
        flags=("--backend",),
    ),
    RequestField(
        *("rdma", _CHOICE, _WHERE, "RDMA between nodes"),
        "Whether its replicas reach each other by RDMA, for NCCL on whole GPUs.",
        default="auto",
        attribute="rdma",
        choices=("auto", "on", "off"),
        flags=("--rdma",),
        is_optional_in_storage=True,
    ),
    RequestField(
        *("containers", _CHOICE, _WHERE, "Containers"),
        "Replicas on one node can share a container, so that NCCL uses NVLink and shared memory "
        "between them: those with one process for each whole GPU.",
        default="per-node",
        attribute="containers",
        choices=("per-node", "per-replica"),
        flags=("--containers",),
        is_optional_in_storage=True,
    ),
    RequestField(
        *("preflight", _CHOICE, _WHERE, "Network check"),
        "Before a gang over several nodes starts, an all-reduce on its GPUs checks their network. "
        "That takes up to 5 minutes, which your project pays for and the time limit does not "
        "count.",
        default="none",
        attribute="preflight",
        choices=("none", "all-reduce"),
        flags=("--preflight",),
        is_optional_in_storage=True,
    ),
)
