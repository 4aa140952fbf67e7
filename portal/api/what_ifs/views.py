"""What-ifs over REST, for platform admins: ask with POST, then look until it is over."""

from typing import Any

from django.urls import reverse
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from portal.accounts.models import Scope
from portal.accounts.rights import require_platform_admin
from portal.api.protocol.authentication import caller
from portal.api.protocol.idempotency import KEY, once
from portal.api.protocol.openapi import listing
from portal.what_if.models import Status, WhatIf
from portal.what_if.selectors import what_if_visible, what_ifs_of
from portal.what_if.services import what_if_ask, what_if_cancel

MOST_LISTED = 50
CHANGE_HELP = (
    "Each is an object with a kind: quota (project, units, user, model), nodes (count, like), "
    "without (node), layout (node, gpu, profiles), mode (model, mode), policy (name, value)."
)


class WaitsShape(serializers.Serializer[Any]):
    jobs = serializers.IntegerField()
    mean_seconds = serializers.IntegerField()
    p50_seconds = serializers.IntegerField()
    p95_seconds = serializers.IntegerField()
    longest_seconds = serializers.IntegerField()


class ReplayShape(serializers.Serializer[Any]):
    jobs = serializers.IntegerField()
    ended = serializers.IntegerField()
    left_waiting = serializers.IntegerField()
    refused = serializers.IntegerField()
    withdrawn = serializers.IntegerField()
    waits = WaitsShape()
    waits_by_project = serializers.DictField(child=WaitsShape())
    waits_by_priority = serializers.DictField(child=WaitsShape())
    held_for = serializers.DictField(
        child=serializers.IntegerField(), help_text="seconds waited, by the code of the reason"
    )
    allocated = serializers.FloatField(help_text="mean part of the available GPUs, 0 to 1")
    allocated_by_model = serializers.DictField(child=serializers.FloatField())
    gpus = serializers.IntegerField()
    preemptions = serializers.IntegerField()
    last_ended_at = serializers.IntegerField(help_text="seconds since the epoch")


class AccuracyShape(serializers.Serializer[Any]):
    """How well the replay of the unchanged cluster tells the waits that were."""

    jobs = serializers.IntegerField()
    recorded_mean_seconds = serializers.IntegerField()
    replayed_mean_seconds = serializers.IntegerField()
    recorded_p50_seconds = serializers.IntegerField()
    replayed_p50_seconds = serializers.IntegerField()


class ComparisonShape(serializers.Serializer[Any]):
    since = serializers.IntegerField(help_text="seconds since the epoch")
    until = serializers.IntegerField(help_text="seconds since the epoch")
    changes = serializers.ListField(child=serializers.CharField(), help_text="in words")
    baseline = ReplayShape()
    changed = ReplayShape()
    differences = serializers.DictField(child=serializers.FloatField())
    accuracy = AccuracyShape()


class WhatIfRow(serializers.ModelSerializer[WhatIf]):
    """A question, without its answer."""

    asked_by = serializers.CharField(source="asked_by.username")
    status = serializers.ChoiceField(choices=Status.choices, source="told_status")
    sentence = serializers.CharField(source="told_sentence")
    changes = serializers.ListField(child=serializers.DictField(), help_text=CHANGE_HELP)

    class Meta:
        model = WhatIf
        fields: tuple[str, ...] = (
            "id",
            "asked_by",
            "days",
            "changes",
            "status",
            "progress",
            "sentence",
            "created_at",
            "finished_at",
        )


class WhatIfShape(WhatIfRow):
    """With its answer, once it is done."""

    outcome = ComparisonShape(allow_null=True)

    class Meta(WhatIfRow.Meta):
        fields = (*WhatIfRow.Meta.fields, "outcome")


class WhatIfBody(serializers.Serializer[Any]):
    days = serializers.IntegerField(default=7, min_value=1, max_value=90)
    changes = serializers.ListField(child=serializers.DictField(), help_text=CHANGE_HELP)


class WhatIfList(APIView):
    scopes = {"POST": Scope.ADMIN}

    @extend_schema(operation_id="what_if_list", responses=listing(WhatIfRow))
    def get(self, request: Request) -> Response:
        """The last ones, newest first, without their answers."""
        rows = what_ifs_of(caller(request)).defer("outcome")[:MOST_LISTED]
        return Response({"results": WhatIfRow(rows, many=True).data})

    @extend_schema(
        operation_id="what_if_ask",
        parameters=[KEY],
        request=WhatIfBody,
        responses={202: WhatIfShape},
    )
    @once
    def post(self, request: Request) -> Response:
        require_platform_admin(caller(request))
        body = WhatIfBody(data=request.data)
        body.is_valid(raise_exception=True)
        row = what_if_ask(user=caller(request), **body.validated_data)
        row.refresh_from_db()
        place = {"Location": reverse("api:what-if", args=[row.pk])}
        return Response(WhatIfShape(row).data, status=202, headers=place)


class WhatIfOne(APIView):
    @extend_schema(operation_id="what_if_show", responses=WhatIfShape)
    def get(self, request: Request, what_if: str) -> Response:
        return Response(WhatIfShape(what_if_visible(caller(request), what_if)).data)


class WhatIfCancel(APIView):
    scopes = {"POST": Scope.ADMIN}

    @extend_schema(operation_id="what_if_cancel", request=None, responses=WhatIfShape)
    def post(self, request: Request, what_if: str) -> Response:
        """Nobody works on it any more, within seconds. What is over stays as it is: 409."""
        row = what_if_visible(caller(request), what_if)
        return Response(WhatIfShape(what_if_cancel(user=caller(request), row=row)).data)
