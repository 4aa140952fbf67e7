"""The admin pages of allocations, and of nodes: retiring a node needs its allocations."""

from collections.abc import Callable
from typing import Any

from django import forms
from django.contrib import admin, messages
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from unfold.admin import ModelAdmin

from portal.admin_base import ReadOnlyAdmin, show_refusals
from portal.allocations.holding import node_allow_mass_removal
from portal.allocations.models import Allocation
from portal.allocations.retirement import node_retire
from portal.inventory.models import Node
from portal.inventory.node_settings import node_labels_set, node_taints_set
from portal.inventory.revocation import node_unfreeze
from portal.inventory.services import (
    node_add,
    node_cordon,
    node_invite,
    node_uncordon,
)


@admin.register(Allocation)
class AllocationAdmin(ReadOnlyAdmin):
    list_display = ("slice", "project", "user", "units", "status", "bound_at", "released_at")
    list_filter = ("status", "project")
    search_fields = ("user__username", "project__slug", "slice__gpu__uuid")
    list_select_related = ("slice__gpu__node", "project", "user")


class NodeForm(forms.ModelForm):  # type: ignore[type-arg]  # not generic at run time
    """The labels and taints of a node, as words separated by spaces."""

    label_words = forms.CharField(
        label="Labels", required=False, help_text="What jobs may require, such as: nvme zone=a"
    )
    taint_words = forms.CharField(
        label="Taints", required=False, help_text="Only jobs that tolerate every taint run here."
    )
    taint_reason_text = forms.CharField(
        label="Reason for the taints", required=False, max_length=200
    )

    class Meta:
        model = Node
        fields = ("name",)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        row = self.instance
        self.initial.update(
            label_words=" ".join(row.labels),
            taint_words=" ".join(row.taints),
            taint_reason_text=row.taint_reason,
        )


@admin.register(Node)
class NodeAdmin(ModelAdmin):
    form = NodeForm
    editable_fields = ("label_words", "taint_words", "taint_reason_text")
    list_display = ("name", "status", "schedulable", "cordon_reason", "last_seen_at", "revision")
    list_filter = ("status", "schedulable")
    search_fields = ("name",)
    fields = ("name",)
    actions = ("cordon", "uncordon", "retire", "revoke", "unfreeze", "invite", "allow_mass_removal")
    shown_fields = [
        "name",
        "status",
        "schedulable",
        "cordon_reason",
        "cordon_actor",
        "last_seen_at",
        "lease_until",
        "boot_id",
        "revoked_at",
        "frozen_at",
        "events_dropped",
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
        return [*self.shown_fields, *self.editable_fields] if obj else self.fields

    def get_readonly_fields(self, request: HttpRequest, obj: Node | None = None) -> Any:
        return self.shown_fields if obj else ()

    def has_delete_permission(self, request: HttpRequest, obj: Node | None = None) -> bool:
        """A node is retired, never deleted: its history stays."""
        return False

    def save_model(self, request: HttpRequest, obj: Node, form: Any, change: bool) -> None:
        if change:
            self._save_settings(request, obj, form)
            return
        row, token = node_add(name=obj.name, actor=request.user.get_username())
        obj.pk, obj._state.adding = row.pk, False
        _show_token(request, row, token)

    def _save_settings(self, request: HttpRequest, obj: Node, form: Any) -> None:
        actor, values = request.user.get_username(), form.cleaned_data
        with show_refusals(request):
            if "label_words" in form.changed_data:
                node_labels_set(node=obj, labels=values["label_words"].split(), actor=actor)
            if {"taint_words", "taint_reason_text"} & set(form.changed_data):
                taints = values["taint_words"].split()
                node_taints_set(
                    node=obj, taints=taints, reason=values["taint_reason_text"], actor=actor
                )

    @admin.action(description="Cordon: give no new work")
    def cordon(self, request: HttpRequest, queryset: QuerySet[Node]) -> None:
        reason = f"cordoned by {request.user.get_username()} in the console"
        _each(
            request,
            queryset,
            lambda node, actor: node_cordon(node=node, reason=reason, actor=actor),
        )

    @admin.action(description="Uncordon: give work again")
    def uncordon(self, request: HttpRequest, queryset: QuerySet[Node]) -> None:
        _each(request, queryset, lambda node, actor: node_uncordon(node=node, actor=actor))

    @admin.action(description="Retire for good")
    def retire(self, request: HttpRequest, queryset: QuerySet[Node]) -> None:
        _each(request, queryset, lambda node, actor: node_retire(node=node, actor=actor))

    @admin.action(description="Revoke the key (with confirmation)")
    def revoke(self, request: HttpRequest, queryset: QuerySet[Node]) -> HttpResponse | None:
        """The console's page says what it means for the node's jobs."""
        chosen = list(queryset[:2])
        if len(chosen) == 1:
            return redirect("web:revoke", chosen[0].name)
        messages.error(request, "Choose one node: each key is confirmed separately")
        return None

    @admin.action(description="Unfreeze the key")
    def unfreeze(self, request: HttpRequest, queryset: QuerySet[Node]) -> None:
        _each(request, queryset, lambda node, actor: node_unfreeze(node=node, actor=actor))

    @admin.action(description="Create a join token")
    def invite(self, request: HttpRequest, queryset: QuerySet[Node]) -> None:
        for node in queryset:
            with show_refusals(request):
                token = node_invite(node=node, actor=request.user.get_username())
                _show_token(request, node, token)

    @admin.action(description="Allow the removal of most work, once")
    def allow_mass_removal(self, request: HttpRequest, queryset: QuerySet[Node]) -> None:
        _each(
            request, queryset, lambda node, actor: node_allow_mass_removal(node=node, actor=actor)
        )


def _each(request: HttpRequest, rows: QuerySet[Node], do: Callable[[Node, str], object]) -> None:
    for node in rows:
        with show_refusals(request):
            do(node, request.user.get_username())
            messages.success(request, f"{node.name}: done")


def _show_token(request: HttpRequest, node: Node, token: str) -> None:
    messages.warning(
        request, f"Join token of {node.name}, shown only now and good for one use: {token}"
    )
