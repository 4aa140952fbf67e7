"""Webhooks over REST: where to be told of jobs, what was told, and telling it again."""

from typing import Any

from django.urls import reverse
from drf_spectacular.utils import OpenApiExample, extend_schema
from rest_framework import serializers, status
from rest_framework.generics import GenericAPIView
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from portal.accounts.models import Scope
from portal.api.accounts.projects import project_visible
from portal.api.jobs.responses import LOCATION, asked
from portal.api.protocol.authentication import caller
from portal.api.protocol.content import NewestFirst
from portal.api.protocol.openapi import listing
from portal.webhooks.models import MAX_URL, Delivery, Endpoint
from portal.webhooks.selectors import (
    deliveries_of,
    delivery_visible,
    endpoint_visible,
    endpoints_of,
)
from portal.webhooks.services import endpoint_add, endpoint_remove, endpoint_test, redeliver
from scheduler.core.model.states import JobStatus


class WebhookShape(serializers.ModelSerializer[Endpoint]):
    id = serializers.UUIDField(source="uid")
    owner = serializers.CharField(source="owner.username")
    project = serializers.CharField(
        source="project.slug",
        default=None,
        allow_null=True,
        help_text="all jobs of it; null: the owner's own jobs",
    )
    kinds = serializers.ListField(
        child=serializers.CharField(), help_text="statuses of a job; empty: all of them"
    )

    class Meta:
        model = Endpoint
        fields = ("id", "name", "url", "owner", "project", "kinds", "off_because", "created_at")


class NewWebhookShape(WebhookShape):
    """The only answer that holds the secret."""

    secret = serializers.SerializerMethodField()

    class Meta(WebhookShape.Meta):
        fields = (*WebhookShape.Meta.fields, "secret")  # type: ignore[assignment]

    def get_secret(self, row: Endpoint) -> str:
        return str(self.context["secret"])


class WebhookBody(serializers.Serializer[Any]):
    name = serializers.CharField(max_length=64)
    url = serializers.CharField(max_length=MAX_URL, help_text="https, at a public address")
    project = serializers.CharField(
        max_length=40, required=False, default="", allow_blank=True, help_text="one that you run"
    )
    kinds = serializers.ListField(
        child=serializers.ChoiceField(choices=[(str(s), str(s)) for s in JobStatus]),
        required=False,
        default=list,
        max_length=len(JobStatus),
    )


class DeliveryShape(serializers.ModelSerializer[Delivery]):
    body = serializers.CharField(help_text="what is signed and sent, byte for byte")
    answer = serializers.IntegerField(allow_null=True, help_text="the status it answered")

    class Meta:
        model = Delivery
        fields = (
            "id",
            "event",
            "kind",
            "body",
            "status",
            "tries",
            "created_at",
            "next_at",
            "tried_at",
            "answer",
            "problem",
        )


ADD_EXAMPLE = OpenApiExample(
    "ends of jobs of a project",
    value={
        "name": "ci",
        "url": "https://ci.example.org/hooks/tessera",
        "project": "vision",
        "kinds": ["succeeded", "failed", "cancelled", "timed_out"],
    },
    request_only=True,
)


class WebhookList(APIView):
    # A narrow token must not make what goes on telling when it is gone.
    scopes = {"POST": Scope.ADMIN}

    @extend_schema(operation_id="webhook_list", responses=listing(WebhookShape))
    def get(self, request: Request) -> Response:
        """Your own, and those of projects that you run."""
        return Response({"results": WebhookShape(endpoints_of(caller(request)), many=True).data})

    @extend_schema(
        operation_id="webhook_add",
        request=WebhookBody,
        responses={201: NewWebhookShape},
        parameters=[LOCATION],
        examples=[ADD_EXAMPLE],
    )
    def post(self, request: Request) -> Response:
        """Each message is signed: `Tessera-Signature` is `v1=` and the HMAC-SHA256, in hexadecimal,
        of `Tessera-Timestamp`, a dot and the body, with the secret that this answer shows once."""
        body = asked(WebhookBody, request.data)
        slug = body.pop("project")
        project = project_visible(caller(request), slug) if slug else None
        row, secret = endpoint_add(user=caller(request), project=project, **body)
        shape = NewWebhookShape(row, context={"secret": secret})
        place = {
            "Location": reverse("api:webhook", args=[row.uid]),
            "Cache-Control": "no-store",
        }
        return Response(shape.data, status=status.HTTP_201_CREATED, headers=place)


class WebhookOne(APIView):
    scopes = {"DELETE": Scope.ADMIN}

    @extend_schema(operation_id="webhook_show", responses=WebhookShape)
    def get(self, request: Request, webhook: str) -> Response:
        return Response(WebhookShape(endpoint_visible(caller(request), webhook)).data)

    @extend_schema(operation_id="webhook_remove", responses={204: None})
    def delete(self, request: Request, webhook: str) -> Response:
        endpoint_remove(endpoint=endpoint_visible(caller(request), webhook), by=caller(request))
        return Response(status=status.HTTP_204_NO_CONTENT)


class WebhookTest(APIView):
    @extend_schema(operation_id="webhook_test", request=None, responses={202: DeliveryShape})
    def post(self, request: Request, webhook: str) -> Response:
        """A test message goes out within seconds; what became of it is in the deliveries."""
        row = endpoint_test(endpoint=endpoint_visible(caller(request), webhook))
        return Response(DeliveryShape(row).data, status=status.HTTP_202_ACCEPTED)


class WebhookDeliveries(GenericAPIView[Delivery]):
    pagination_class = NewestFirst
    serializer_class = DeliveryShape

    @extend_schema(operation_id="webhook_deliveries", responses=DeliveryShape(many=True))
    def get(self, request: Request, webhook: str) -> Response:
        """What was sent in the last 30 days, newest first."""
        rows = deliveries_of(endpoint_visible(caller(request), webhook))
        page = self.paginate_queryset(rows) or []
        return self.get_paginated_response(DeliveryShape(page, many=True).data)


class WebhookRedeliver(APIView):
    @extend_schema(operation_id="webhook_redeliver", request=None, responses={202: DeliveryShape})
    def post(self, request: Request, webhook: str, delivery: str) -> Response:
        """The same message again, with the same event id."""
        endpoint = endpoint_visible(caller(request), webhook)
        row = redeliver(delivery=delivery_visible(endpoint, delivery))
        return Response(DeliveryShape(row).data, status=status.HTTP_202_ACCEPTED)
