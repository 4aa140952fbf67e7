"""The console's view of nodes, GPUs and slices. Statuses are read-only; actions call services."""

from collections.abc import Callable
from typing import Any

from django import forms
from django.contrib import admin, messages
from django.db.models import QuerySet
from django.http import HttpRequest
from unfold.admin import ModelAdmin

from portal.admin_base import ReadOnlyAdmin, refusals_shown
from portal.inventory.models import Gpu, JoinToken, Node, Slice, SlotClaim
from portal.inventory.node_settings import gpu_pin, gpu_unpin, node_label, node_taint
from portal.inventory.services import (
    node_add,
    node_allow_mass_removal,
    node_cordon,
    node_invite,
    node_retire,
    node_uncordon,
)


class NodeForm(forms.ModelForm):
    """What an admin chooses for a node, as words."""

    label_words = forms.CharField(
        label="Labels", required=False, help_text="What jobs may ask for, such as: nvme zone=a"
    )
    taint_words = forms.CharField(
        label="Taints", required=False, help_text="Only jobs that tolerate each of them run here."
    )
    why = forms.CharField(label="Why the taints", required=False, max_length=200)

    class Meta:
        model = Node
        fields = ("name",)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        row = self.instance
        self.initial.update(
            label_words=" ".join(row.labels),
            taint_words=" ".join(row.taints),
            why=row.taint_reason,
        )


@admin.register(Node)
class NodeAdmin(ModelAdmin):
    form = NodeForm
    chosen = ("label_words", "taint_words", "why")
    list_display = ("name", "status", "schedulable", "cordon_reason", "last_seen_at", "revision")
    list_filter = ("status", "schedulable")
    search_fields = ("name",)
    fields = ("name",)
    actions = ("cordon", "uncordon", "retire", "invite", "allow_mass_removal")
    shown = [
        "name",
        "status",
        "schedulable",
        "cordon_reason",
        "cordon_by",
        "last_seen_at",
        "lease_until",
        "boot_id",
        "epoch",
        "revision",
        "applied_revision",
        "allow_mass_removal",
        "fabric",
        "cpu_milli",
        "memory_mib",
        "disk_mib",
        "facts",
        "created_at",
    ]

    def get_fields(self, request: HttpRequest, obj: Node | None = None) -> Any:
        return [*self.shown, *self.chosen] if obj else self.fields

    def get_readonly_fields(self, request: HttpRequest, obj: Node | None = None) -> Any:
        return self.shown if obj else ()

    def has_delete_permission(self, request: HttpRequest, obj: Node | None = None) -> bool:
        """Retire it: its history stays."""
        return False

    def save_model(self, request: HttpRequest, obj: Node, form: Any, change: bool) -> None:
        if change:
            self._choose(request, obj, form)
            return
        made, token = node_add(name=obj.name, actor=request.user.get_username())
        obj.pk, obj._state.adding = made.pk, False
        _show_token(request, made, token)

    def _choose(self, request: HttpRequest, obj: Node, form: Any) -> None:
        actor, values = request.user.get_username(), form.cleaned_data
        with refusals_shown(request):
            if "label_words" in form.changed_data:
                node_label(node=obj, labels=values["label_words"].split(), actor=actor)
            if {"taint_words", "why"} & set(form.changed_data):
                taints = values["taint_words"].split()
                node_taint(node=obj, taints=taints, reason=values["why"], actor=actor)

    @admin.action(description="Cordon: no new work")
    def cordon(self, request: HttpRequest, queryset: QuerySet[Node]) -> None:
        reason = f"cordoned by {request.user.get_username()} in the console"
        _each(request, queryset, lambda node, by: node_cordon(node=node, reason=reason, actor=by))

    @admin.action(description="Uncordon: take work again")
    def uncordon(self, request: HttpRequest, queryset: QuerySet[Node]) -> None:
        _each(request, queryset, lambda node, by: node_uncordon(node=node, actor=by))

    @admin.action(description="Retire for good")
    def retire(self, request: HttpRequest, queryset: QuerySet[Node]) -> None:
        _each(request, queryset, lambda node, by: node_retire(node=node, actor=by))

    @admin.action(description="New join token")
    def invite(self, request: HttpRequest, queryset: QuerySet[Node]) -> None:
        for node in queryset:
            with refusals_shown(request):
                token = node_invite(node=node, actor=request.user.get_username())
                _show_token(request, node, token)

    @admin.action(description="Allow it to remove most of its work once")
    def allow_mass_removal(self, request: HttpRequest, queryset: QuerySet[Node]) -> None:
        _each(request, queryset, lambda node, by: node_allow_mass_removal(node=node, actor=by))


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

    @admin.action(description="Pin: keep its partitions as they are")
    def pin(self, request: HttpRequest, queryset: QuerySet[Gpu]) -> None:
        actor = request.user.get_username()
        reason = f"pinned by {actor} in the console"
        for gpu in queryset:
            with refusals_shown(request):
                gpu_pin(gpu=gpu, reason=reason, actor=actor)
                messages.success(request, f"{gpu}: pinned")

    @admin.action(description="Unpin: let it be partitioned again")
    def unpin(self, request: HttpRequest, queryset: QuerySet[Gpu]) -> None:
        for gpu in queryset:
            with refusals_shown(request):
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


@admin.register(JoinToken)
class JoinTokenAdmin(ReadOnlyAdmin):
    list_display = ("node", "expires_at", "used_at")
    list_select_related = ("node",)
    exclude = ("digest",)


def _each(request: HttpRequest, rows: QuerySet[Node], do: Callable[[Node, str], object]) -> None:
    for node in rows:
        with refusals_shown(request):
            do(node, request.user.get_username())
            messages.success(request, f"{node.name}: done")


def _show_token(request: HttpRequest, node: Node, token: str) -> None:
    messages.warning(
        request, f"Join token of {node.name}, shown only now and good for one use: {token}"
    )
