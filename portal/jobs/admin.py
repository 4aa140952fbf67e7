"""Jobs in the console: read-only, with actions."""

from collections.abc import Callable
from typing import cast

from django.contrib import admin, messages
from django.db.models import QuerySet
from django.http import HttpRequest

from portal.accounts.models import User
from portal.admin_base import ReadOnlyAdmin, show_refusals
from portal.jobs.holds import job_approve, job_hold, job_refuse, job_release
from portal.jobs.models import Attempt, Job, Replica, StartEstimate
from portal.jobs.services import job_cancel

IN_CONSOLE = "decided in the console"


@admin.register(Job)
class JobAdmin(ReadOnlyAdmin):
    list_display = ("label", "name", "project", "owner", "status", "priority", "submitted_at")
    list_filter = ("status", "kind", "priority", "project")
    search_fields = ("=id", "name", "owner__username", "project__slug")
    list_select_related = ("project", "owner")
    actions = ("cancel", "hold", "release", "approve", "refuse")

    @admin.action(description="Cancel")
    def cancel(self, request: HttpRequest, queryset: QuerySet[Job]) -> None:
        for job in queryset:
            with show_refusals(request):
                job_cancel(job=job, actor=request.user.get_username())
                messages.success(request, f"{job.label}: cancelled")

    @admin.action(description="Hold: keep it from starting")
    def hold(self, request: HttpRequest, queryset: QuerySet[Job]) -> None:
        _each(
            request, queryset, lambda job, actor: job_hold(job=job, actor=actor, reason=IN_CONSOLE)
        )

    @admin.action(description="Release what is held")
    def release(self, request: HttpRequest, queryset: QuerySet[Job]) -> None:
        _each(request, queryset, lambda job, actor: job_release(job=job, actor=actor))

    @admin.action(description="Approve")
    def approve(self, request: HttpRequest, queryset: QuerySet[Job]) -> None:
        _each(request, queryset, lambda job, actor: job_approve(job=job, actor=actor))

    @admin.action(description="Refuse")
    def refuse(self, request: HttpRequest, queryset: QuerySet[Job]) -> None:
        _each(
            request,
            queryset,
            lambda job, actor: job_refuse(job=job, actor=actor, reason=IN_CONSOLE),
        )


def _each(request: HttpRequest, queryset: QuerySet[Job], do: Callable[[Job, User], object]) -> None:
    for job in queryset:
        with show_refusals(request):
            do(job, cast(User, request.user))
            messages.success(request, f"{job.label}: done")


@admin.register(StartEstimate)
class StartEstimateAdmin(ReadOnlyAdmin):
    list_display = ("job", "estimated_at", "expected", "pessimistic", "started_at", "basis")
    search_fields = ("=job__id", "job__name")
    list_select_related = ("job",)


@admin.register(Attempt)
class AttemptAdmin(ReadOnlyAdmin):
    list_display = ("id", "job", "number", "created_at", "ended_at", "outcome")
    list_filter = ("outcome",)
    search_fields = ("=job__id", "job__name")
    list_select_related = ("job",)


@admin.register(Replica)
class ReplicaAdmin(ReadOnlyAdmin):
    list_display = ("attempt", "rank", "node", "desired_state", "status", "exit_code", "sentence")
    list_filter = ("status", "desired_state", "node")
    search_fields = ("=attempt__job__id", "node__name", "container")
    list_select_related = ("attempt__job", "node")
