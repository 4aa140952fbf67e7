"""Admin pages of GPUs, slices and join tokens. Nodes are in `portal.allocations.admin`."""

from django.contrib import admin, messages
from django.db.models import QuerySet
from django.http import HttpRequest

from portal.admin_base import ReadOnlyAdmin, show_refusals
from portal.inventory.models import DisputedClaim, Gpu, JoinToken, Slice, SlotClaim
from portal.inventory.node_settings import gpu_pin, gpu_unpin


@admin.register(Gpu)
class GpuAdmin(ReadOnlyAdmin):
    list_display = (
        "node",
        "index",
        "product_name",
        "desired_mode",
        "observed_mode",
        "health",
        "pinned",
    )
    list_filter = ("health", "pinned", "observed_mode", "board", "node")
    search_fields = ("uuid", "node__name")
    list_select_related = ("node",)
    actions = ("pin", "unpin")

    @admin.action(description="Pin: keep the partitions as they are")
    def pin(self, request: HttpRequest, queryset: QuerySet[Gpu]) -> None:
        actor = request.user.get_username()
        reason = f"pinned by {actor} in the console"
        for gpu in queryset:
            with show_refusals(request):
                gpu_pin(gpu=gpu, reason=reason, actor=actor)
                messages.success(request, f"{gpu}: pinned")

    @admin.action(description="Unpin: allow repartitioning")
    def unpin(self, request: HttpRequest, queryset: QuerySet[Gpu]) -> None:
        for gpu in queryset:
            with show_refusals(request):
                gpu_unpin(gpu=gpu, actor=request.user.get_username())
                messages.success(request, f"{gpu}: unpinned")


@admin.register(Slice)
class SliceAdmin(ReadOnlyAdmin):
    list_display = ("id", "gpu", "kind", "profile", "start", "size", "units", "status", "problem")
    list_filter = ("status", "kind", "profile")
    search_fields = ("device_uuid", "gpu__uuid", "gpu__node__name")
    list_select_related = ("gpu__node",)


@admin.register(SlotClaim)
class SlotClaimAdmin(ReadOnlyAdmin):
    list_display = ("gpu", "slot", "slice")
    search_fields = ("gpu__uuid",)
    list_select_related = ("gpu__node", "slice__gpu__node")


@admin.register(DisputedClaim)
class DisputedClaimAdmin(ReadOnlyAdmin):
    list_display = ("gpu", "claimant", "claimed_at", "withdrawn_at", "dismissed_at")
    search_fields = ("gpu__uuid", "claimant__name")
    list_select_related = ("gpu__node", "claimant")


@admin.register(JoinToken)
class JoinTokenAdmin(ReadOnlyAdmin):
    list_display = ("node", "expires_at", "used_at")
    list_select_related = ("node",)
    exclude = ("digest",)
