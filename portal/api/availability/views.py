"""REST view of what is free now: the counts of the pages, for programs and the command line."""

from datetime import UTC, datetime
from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework.response import Response

from agents.contract.boards import Board
from agents.contract.documents import SliceKind
from portal.api.availability.serializers import (
    AvailabilityQuerySerializer,
    AvailabilitySerializer,
)
from portal.api.protocol.requests import ApiRequest
from portal.api.protocol.views import ApiView
from portal.availability.selectors import availability_for
from scheduler.core.availability.cluster import ClusterAvailability
from scheduler.core.availability.counts import Availability, Category, DeviceCount, DeviceKind


class AvailabilityDetail(ApiView):
    @extend_schema(
        operation_id="availability_show",
        parameters=[AvailabilityQuerySerializer],
        responses=AvailabilitySerializer,
    )
    def get(self, request: ApiRequest) -> Response:
        """What is free now: by category, and how many more devices of each kind could start."""
        cluster = availability_for(request.caller)
        body: dict[str, Any] = {
            "at": datetime.fromtimestamp(cluster.at, UTC),
            "cluster": _counts_data(cluster.total),
            "boards": [
                _board_data(cluster.board_table[key], counts)
                for key, counts in sorted(cluster.boards.items())
            ],
        }
        if request.validated_query(AvailabilityQuerySerializer)["nodes"]:
            body["nodes"] = _nodes_data(cluster)
        return Response(body)


def _nodes_data(cluster: ClusterAvailability) -> list[dict[str, Any]]:
    return [
        {"node": name, "board": key, **_counts_data(counts), "devices": _devices_data(counts)}
        for name, node in sorted(cluster.nodes.items())
        for key, counts in sorted(node.boards.items())
    ]


def _board_data(board: Board, counts: Availability) -> dict[str, Any]:
    names = {"board": board.key, "model": board.model, "memory_mib": board.memory_mib}
    return {**names, **_counts_data(counts), "devices": _devices_data(counts, board)}


def _counts_data(counts: Availability) -> dict[str, Any]:
    return {
        "gpus": counts.gpus,
        "in_service": counts.in_service,
        "out_of_service": counts.out_of_service,
        "on_unavailable_nodes": counts.on_unavailable_nodes,
        "free_gpus": counts.free_gpus,
        "idle_slices": counts.idle_slices,
        "units": {category.value: counts.units[category] for category in Category},
    }


def _devices_data(counts: Availability, board: Board | None = None) -> list[dict[str, Any]]:
    return [_device_data(kind, count, board) for kind, count in sorted(counts.devices.items())]


def _device_data(kind: DeviceKind, count: DeviceCount, board: Board | None) -> dict[str, Any]:
    memory = {} if board is None else {"memory_mib": _memory_mib(kind, board)}
    return {
        "kind": kind.kind.value,
        "profile": kind.profile,
        **memory,
        "ready": count.ready,
        "carvable": count.carvable,
        "recarvable": count.recarvable,
        "available": count.available,
        "total": count.total,
    }


def _memory_mib(kind: DeviceKind, board: Board) -> int:
    """Memory of one such device. A share may have any part of the GPU's."""
    profile = board.profile(kind.profile) if kind.kind is SliceKind.MIG else None
    return profile.memory_mib if profile else board.memory_mib
