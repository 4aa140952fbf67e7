"""The limits that every job request is checked against, and the amounts that it gets by default."""

from collections.abc import Mapping
from typing import Any

from django.conf import settings

from portal.idle.hang_limits import HungLimits
from portal.planning.inventory_view import InventoryView, current_inventory
from scheduler.core.model.snapshot import DeviceRequest
from scheduler.core.request import RequestLimits, parse_stored_request, request_as_dict
from scheduler.core.request.values import HostShare
from scheduler.core.request_fields import FIELDS


def request_limits() -> RequestLimits:
    """Time limits, the largest gang and the allowed images, from TESSERA_* settings; CPU and memory
    by default from the nodes."""
    platform = settings.PLATFORM
    hung = HungLimits(platform.hung_warn_minutes, platform.hung_stop_minutes)
    return RequestLimits(
        default_time_limit_seconds=platform.default_time_limit_seconds,
        max_time_limit_seconds=platform.max_time_limit_seconds,
        max_replicas=platform.max_replicas,
        image_allow=tuple(p.strip() for p in platform.image_allow.split(",") if p.strip()),
        hung_stop_seconds=hung.stop_seconds,
        can_preflight=bool(platform.nccl_tests_image),
        host_share=ClusterHostShares(),
    )


def chosen_fields(stored: Mapping[str, Any], limits: RequestLimits) -> dict[str, Any]:
    """A stored request without the amounts that its device would bring anyway: they follow where
    the device is changed."""
    fields = dict(stored)
    for field in FIELDS:
        if field.follows_device and field.name in fields:
            rest = {name: value for name, value in fields.items() if name != field.name}
            filled = request_as_dict(parse_stored_request(rest, limits.host_share))
            if filled[field.name] == fields[field.name]:
                fields = rest
    return fields


class ClusterHostShares:
    """The share of the node that a device is. Looks at the nodes once, and only if a request leaves
    an amount out."""

    def __init__(self) -> None:
        self._inventory: InventoryView | None = None

    def __call__(
        self, device: DeviceRequest, *, needs: tuple[str, ...], tolerates: tuple[str, ...]
    ) -> HostShare:
        if self._inventory is None:
            self._inventory = current_inventory()
        return self._inventory.share_of(device, needs=needs, tolerates=tolerates)
