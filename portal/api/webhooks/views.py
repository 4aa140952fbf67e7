"""REST views of webhooks: endpoints, their deliveries, tests and redelivery."""

from django.urls import reverse
from drf_spectacular.utils import OpenApiExample, extend_schema
from rest_framework import status
from rest_framework.generics import GenericAPIView
from rest_framework.response import Response

from portal.accounts.models import TokenScope
from portal.accounts.selectors import visible_project
from portal.api.protocol.openapi import LOCATION, list_response
from portal.api.protocol.pagination import NewestFirstPagination
from portal.api.protocol.requests import ApiRequest
from portal.api.protocol.views import ApiView
from portal.api.webhooks.serializers import (
    DeliverySerializer,
    NewWebhookSerializer,
    WebhookRequestSerializer,
    WebhookSerializer,
)
from portal.webhooks.chat import ChatFormat
from portal.webhooks.models import Delivery
from portal.webhooks.selectors import (
    endpoint_deliveries,
    visible_delivery,
    visible_endpoint,
    visible_endpoints,
)
from portal.webhooks.services import delivery_resend, endpoint_add, endpoint_remove, endpoint_test

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


class WebhookList(ApiView):
    # A narrow token must not create a webhook that outlives it.
    scopes = {"POST": TokenScope.ADMIN}

    @extend_schema(operation_id="webhook_list", responses=list_response(WebhookSerializer))
    def get(self, request: ApiRequest) -> Response:
        """Your webhooks, and those of projects that you administer."""
        return Response(
            {"results": WebhookSerializer(visible_endpoints(request.caller), many=True).data}
        )

    @extend_schema(
        operation_id="webhook_add",
        request=WebhookRequestSerializer,
        responses={201: NewWebhookSerializer},
        parameters=[LOCATION],
        examples=[ADD_EXAMPLE],
    )
    def post(self, request: ApiRequest) -> Response:
        """Add a webhook. Each message is signed: `Tessera-Signature` is `v1=` and the hexadecimal
        HMAC-SHA256 of `Tessera-Timestamp`, a dot and the body, with the secret that this response
        shows once. A chat (`format`) is sent plain text instead; its address is stored sealed and
        never shown again."""
        body = request.validated_data(WebhookRequestSerializer)
        slug = body.pop("project")
        project = visible_project(request.caller, slug) if slug else None
        chat = ChatFormat(body.pop("format"))
        row, secret = endpoint_add(user=request.caller, project=project, format=chat, **body)
        data = NewWebhookSerializer(row, context={"secret": secret}).data
        headers = {
            "Location": reverse("api:webhook", args=[row.uid]),
            "Cache-Control": "no-store",
        }
        return Response(data, status=status.HTTP_201_CREATED, headers=headers)


class WebhookDetail(ApiView):
    scopes = {"DELETE": TokenScope.ADMIN}

    @extend_schema(operation_id="webhook_show", responses=WebhookSerializer)
    def get(self, request: ApiRequest, webhook: str) -> Response:
        """One webhook."""
        return Response(WebhookSerializer(visible_endpoint(request.caller, webhook)).data)

    @extend_schema(operation_id="webhook_remove", responses={204: None})
    def delete(self, request: ApiRequest, webhook: str) -> Response:
        """Remove a webhook."""
        endpoint_remove(endpoint=visible_endpoint(request.caller, webhook), actor=request.caller)
        return Response(status=status.HTTP_204_NO_CONTENT)


class WebhookTest(ApiView):
    @extend_schema(operation_id="webhook_test", request=None, responses={202: DeliverySerializer})
    def post(self, request: ApiRequest, webhook: str) -> Response:
        """Send a test message within seconds. The deliveries list shows its result."""
        row = endpoint_test(endpoint=visible_endpoint(request.caller, webhook))
        return Response(DeliverySerializer(row).data, status=status.HTTP_202_ACCEPTED)


class WebhookDeliveries(ApiView, GenericAPIView[Delivery]):
    pagination_class = NewestFirstPagination
    serializer_class = DeliverySerializer

    @extend_schema(operation_id="webhook_deliveries", responses=DeliverySerializer(many=True))
    def get(self, request: ApiRequest, webhook: str) -> Response:
        """The messages of the last 30 days, newest first."""
        rows = endpoint_deliveries(visible_endpoint(request.caller, webhook))
        page = self.paginate_queryset(rows) or []
        return self.get_paginated_response(DeliverySerializer(page, many=True).data)


class WebhookRedeliver(ApiView):
    @extend_schema(
        operation_id="webhook_redeliver", request=None, responses={202: DeliverySerializer}
    )
    def post(self, request: ApiRequest, webhook: str, delivery: str) -> Response:
        """Send the same message again, with the same event id."""
        endpoint = visible_endpoint(request.caller, webhook)
        row = delivery_resend(delivery=visible_delivery(endpoint, delivery))
        return Response(DeliverySerializer(row).data, status=status.HTTP_202_ACCEPTED)

    service_roles = {"POST": "for a project: its admin"}
